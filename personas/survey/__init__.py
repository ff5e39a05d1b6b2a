"""A team over a whole data set: its members, their agreement and their worth."""
