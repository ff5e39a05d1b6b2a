"""The batch APIs of providers as one more chat model."""
