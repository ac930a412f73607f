"""Policies that learn from what a world model predicts."""
