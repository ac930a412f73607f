"""Foreign text, such as the name of a directory, in a form that a terminal shows and does not obey."""

from __future__ import annotations

import os
import sys


def printable(text: str, keep: str = "") -> str:
    r"""Return text in which escapes such as `\n` and `\x1b` stand for characters that cannot be printed, except `keep`.

    These are control characters, those that change the direction of writing, and bytes of a file's name that are no
    UTF-8.
    """
    return "".join(char if char in keep or char.isprintable() else repr(char)[1:-1] for char in text)


def printable_lines(text: str) -> str:
    """Return text as `printable` does, but with its line breaks and tabs."""
    return printable(text, keep="\n\t")


def show(text: str) -> None:
    """Print text, safely for a terminal. It is no error if its reader, such as `head`, stops early."""
    try:
        print(printable_lines(text), flush=True)
    except BrokenPipeError:  # else Python would complain again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
