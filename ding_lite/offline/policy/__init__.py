"""Policies that learn from a data set, or also from one."""
