"""What one ranked query looked like."""
