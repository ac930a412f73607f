"""A room: what starts a run other than by calling its pipeline: in ranks, in processes, on a cluster, from Python.

It uses the kernel, and gives a trained policy back. A run that a script starts loads none of it.
"""
