"""Reads, groups, compares and draws what runs have left in their directories. Nothing here imports torch.

What a user can correct raises `UserError`, whose message says how.
"""
