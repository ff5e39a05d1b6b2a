"""Tests of mcranker/llm/local."""
