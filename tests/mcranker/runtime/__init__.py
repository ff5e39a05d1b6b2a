"""Tests of mcranker/runtime."""
