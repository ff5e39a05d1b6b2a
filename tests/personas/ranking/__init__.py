"""Tests of personas/ranking."""
