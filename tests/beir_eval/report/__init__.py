"""Tests of beir_eval/report."""
