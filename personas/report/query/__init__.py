"""The report of one query."""
