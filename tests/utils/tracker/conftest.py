"""Every test here starts in an empty directory of its own, on one thread."""

from tests.entry.conftest import empty_directory, one_thread

__all__ = ["empty_directory", "one_thread"]
