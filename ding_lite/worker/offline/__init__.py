"""Data sets: files, rows, and loading them ahead."""
