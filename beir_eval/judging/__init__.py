"""Models as judges of a collection: their grades, and their agreement with people."""
