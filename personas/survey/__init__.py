"""What a team did over a whole data set: who was on it, how they agreed, what they were worth."""
