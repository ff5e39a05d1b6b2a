"""Distillation: a cross-encoder learns the scores that a team gave in a run."""
