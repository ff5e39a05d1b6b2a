"""Tests of beir_eval/compare."""
