"""A room: several agents in one environment. Policies of one agent learn by rows; others mix values or share a critic.

It uses the kernel. A run with one agent loads none of it.
"""
