"""Tests of this room start as those of tests/run do."""

from tests.run.conftest import empty_directory, nothing_starts, one_thread, run_directory, trained

__all__ = ["empty_directory", "nothing_starts", "one_thread", "run_directory", "trained"]
