"""Reports in the terminal."""
