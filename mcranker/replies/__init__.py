"""Ask a model, and read what it replies."""
