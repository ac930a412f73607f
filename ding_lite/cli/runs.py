"""List the runs in a directory: how they ended, best return, size."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from ding_lite.cli.output import show
from ding_lite.results.cleaning import list_runs, size_of
from ding_lite.results.run import find_directories
from ding_lite.results.table import show_size
from ding_lite.utils.registry import UserError

USAGE = "[DIR]"
EXAMPLES = """
ding_lite runs
ding_lite runs experiments
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("directory", nargs="?", default=".", metavar="DIR", help="default: the current directory")


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    root = Path(args.directory)
    if not root.is_dir():
        raise UserError(f"'{root}' does not exist or is not a directory: give one that contains runs.")
    directories = list(find_directories(root))
    table = [list_runs(directories, root).text(shutil.get_terminal_size().columns)] if directories else []
    total = show_size(size_of(directories))
    show("\n".join([*table, f"{len(directories)} run{'s' * (len(directories) != 1)}, {total}"]))
