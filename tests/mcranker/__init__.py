"""Tests of mcranker."""
