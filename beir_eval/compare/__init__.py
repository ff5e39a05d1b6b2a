"""Two runs side by side: the queries on which they differ, and why."""
