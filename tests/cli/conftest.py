"""Tests of commands start as those of tests/entry do."""

from tests.entry.conftest import empty_directory, nothing_starts, one_thread, run_directory, trained

__all__ = ["empty_directory", "nothing_starts", "one_thread", "run_directory", "trained"]
