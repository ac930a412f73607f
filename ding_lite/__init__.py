"""ding_lite: config-driven reinforcement learning, the same on one process and on many."""

__version__ = "0.1.0"
