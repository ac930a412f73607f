"""Checkpoint files, the checkpoints of a run, and the run's directory."""
