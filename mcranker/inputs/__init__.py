"""Queries, passages and judgements in all the forms that users have."""
