"""A room: collects as a data set of torch, for training loops that are not ours.

It uses the kernel. A run of a pipeline loads none of it.
"""
