"""Searches for hyperparameters: trials of several seeds, in a study that several machines may share.

What a user can correct raises `UserError`, whose message says how.
"""
