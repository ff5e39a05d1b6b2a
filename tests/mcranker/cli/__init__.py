"""Tests of mcranker/cli."""
