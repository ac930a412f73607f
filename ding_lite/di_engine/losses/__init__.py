"""Losses of DI-engine with its names and named tuples, by family as the files of `rl_utils`."""
