"""ding_lite: config-driven reinforcement learning, on one process or many."""

__version__ = "0.1.0"
