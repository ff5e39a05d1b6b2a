"""Tests of personas/inspection."""
