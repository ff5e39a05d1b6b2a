"""The report over a data set."""
