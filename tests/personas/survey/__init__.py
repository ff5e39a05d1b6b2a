"""Tests of personas/survey."""
