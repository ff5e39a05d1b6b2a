"""Measures, significance, ties, fusion, and the figures of the paper."""
