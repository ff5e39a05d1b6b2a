"""Tests of personas."""
