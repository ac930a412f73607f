"""Starts the ranks of a job, from the command line or from Python."""
