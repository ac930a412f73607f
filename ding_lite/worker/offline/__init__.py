"""Data sets: files, transitions, and loading batches ahead. One that cannot be used raises `DatasetError`."""
