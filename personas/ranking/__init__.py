"""Record of one ranked query."""
