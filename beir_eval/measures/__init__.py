"""Measures, significance, ties, and the figures of the paper."""
