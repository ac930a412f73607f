"""Reads, groups, compares and draws what runs have left in their directories. Nothing here imports torch."""
