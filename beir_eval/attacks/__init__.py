"""Attacks on rankers and pipelines by the texts they read, and what defences are worth."""
