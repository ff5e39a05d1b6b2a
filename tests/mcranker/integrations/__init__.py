"""Tests of mcranker/integrations."""
