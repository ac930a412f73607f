"""Algorithms that learn from a data set."""
