"""Concurrency, pace, retries and budget around a model."""
