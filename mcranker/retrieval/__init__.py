"""What finds passages and compares their words with those of a query."""
