"""Tests of mcranker/llm/limits."""
