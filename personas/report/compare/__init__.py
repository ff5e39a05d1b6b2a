"""Two rankings of a query side by side: what changed, and whose scores moved each passage."""
