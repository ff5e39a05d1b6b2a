"""The embedded engine and its model files."""
