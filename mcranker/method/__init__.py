"""The method of the paper: recruit, write criteria, score, combine."""
