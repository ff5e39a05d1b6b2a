"""The `mcranker` command."""
