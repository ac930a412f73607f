"""Policies that learn from a data set instead of an environment."""
