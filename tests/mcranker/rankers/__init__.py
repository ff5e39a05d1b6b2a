"""Tests of mcranker/rankers."""
