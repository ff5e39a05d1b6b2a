"""Actors, and the bridge between callers and the event loop."""
