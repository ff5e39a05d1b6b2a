"""Tests of mcranker/llm/providers."""
