"""Tests of beir_eval."""
