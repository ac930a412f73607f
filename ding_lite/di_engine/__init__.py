"""A room: what exists only for configs and code that were written for DI-engine.

It uses the kernel. A run whose config has only keys, types and values of ding_lite loads none of it.
"""
