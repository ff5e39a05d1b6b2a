"""Tests of mcranker/replies."""
