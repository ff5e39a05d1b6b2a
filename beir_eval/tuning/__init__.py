"""Weights of a team's personas and criteria, fitted to judgements at no call."""
