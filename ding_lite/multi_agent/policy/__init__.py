"""Policies that know of several agents."""
