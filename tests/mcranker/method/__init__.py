"""Tests of mcranker/method."""
