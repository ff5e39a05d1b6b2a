"""Tests of beir_eval/persona_report."""
