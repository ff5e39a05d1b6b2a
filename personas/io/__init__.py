"""Files: read line by line with errors that name the place, and written whole or not at all."""
