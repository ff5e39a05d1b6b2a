"""Tests of beir_eval/measures."""
