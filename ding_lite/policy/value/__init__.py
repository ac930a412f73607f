"""Algorithms that learn action values and act by them."""
