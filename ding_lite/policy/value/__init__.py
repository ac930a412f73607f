"""Algorithms that learn action values and act on them."""
