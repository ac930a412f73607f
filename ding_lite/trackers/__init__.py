"""A room: services that show the figures of a run, Weights & Biases and MLflow.

It uses the kernel and reads the records of runs. A run without `tracker.type` loads none of it.
"""
