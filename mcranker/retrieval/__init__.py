"""Search for passages and comparison of their words with those of a query."""
