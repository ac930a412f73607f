"""What commands print and write, and the option that names runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ding_lite.utils.registry import UserError


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Declare the runs to read."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="directory of a run, or one that contains runs")


def show(text: str) -> None:
    """Print text. It is no error if its reader, such as `head`, stops early."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # else Python would complain again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_notes(notes: Iterable[str]) -> None:
    """Print notes to stderr, where they do not disturb what is redirected."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def write_text(path: Path, text: str) -> None:
    """Write a file, and its directory if needed.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write '{path}': {error.strerror}.") from None
