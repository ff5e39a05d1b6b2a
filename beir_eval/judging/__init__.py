"""Models as judges of a collection: grades for its holes, and their agreement with people."""
