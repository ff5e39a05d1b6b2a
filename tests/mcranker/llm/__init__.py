"""Tests of mcranker/llm."""
