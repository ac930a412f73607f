"""Data sets: files, transitions, and loading batches ahead."""
