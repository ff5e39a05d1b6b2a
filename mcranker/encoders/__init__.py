"""Texts to vectors, and the share of a query's words that a passage has."""
