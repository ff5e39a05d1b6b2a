"""Tests of mcranker/llm/batch."""
