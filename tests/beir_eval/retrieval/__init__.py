"""Tests of beir_eval/retrieval."""
