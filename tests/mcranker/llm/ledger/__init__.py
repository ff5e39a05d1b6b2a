"""Tests of mcranker/llm/ledger."""
