"""Searches for hyperparameters: trials of several seeds, in a study that several machines may share."""
