"""A room: policies that learn from what a learned model of the environment predicts.

It uses the kernel. A run without such a policy loads none of it.
"""
