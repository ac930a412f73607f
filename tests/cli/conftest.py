"""Tests of commands start as those of tests/entry do."""

from tests.entry.conftest import empty_directory, one_thread, run_directory, trained

__all__ = ["empty_directory", "one_thread", "run_directory", "trained"]
