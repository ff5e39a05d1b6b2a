"""Tests of personas/report."""
