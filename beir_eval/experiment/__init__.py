"""Suites and their run folders: data sets x rankers x settings."""
