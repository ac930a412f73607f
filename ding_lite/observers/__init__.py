"""A room: runs whose episodes are played by other processes, the observers, which ask the learner by rpc.

It uses the kernel. A run of another pipeline loads none of it.
"""
