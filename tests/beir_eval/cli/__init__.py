"""Tests of beir_eval/cli."""
