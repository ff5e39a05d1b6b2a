"""Tests of beir_eval/experiment."""
