"""Tests of beir_eval/data."""
