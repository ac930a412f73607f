"""Remove checkpoints that ended runs do not need; asks first.

The best, the last and the newest checkpoint stay, so a run can still be
evaluated and resumed. Active runs and runs that were killed are left alone.
--parts also removes replay buffers, and --runs whole runs without evaluations.
"""

from __future__ import annotations

import argparse
import sys

from ding_lite.cli.output import add_paths
from ding_lite.results.cleaning import Removal, find_checkpoints, find_unevaluated, remove
from ding_lite.results.run import find_runs
from ding_lite.results.table import show_size
from ding_lite.utils.registry import UserError

USAGE = "PATH... [--parts] [--runs] [--yes]"
EXAMPLES = """
ding_lite clean experiments
ding_lite clean cartpole_seed0 --parts
ding_lite clean experiments --runs --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_paths(parser)
    parser.add_argument(
        "--parts",
        action="store_true",
        help="also what the ranks keep with the newest checkpoint, such as replay buffers; a finished run can then "
        "be evaluated, but not be resumed with a higher limit",
    )
    parser.add_argument("--runs", action="store_true", help="also whole runs that ended without an evaluation")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    removals = find_removals(args)
    if not removals:
        print("There is nothing to remove.")
        return
    for removal in removals:
        print(f"{removal.run.path}\n  {removal.what}, {show_size(removal.size)}")
    total = show_size(sum(removal.size for removal in removals))
    count = f"{len(removals)} run{'s' * (len(removals) > 1)}"
    if not args.yes and not _agrees(f"Remove {total} from {count}? [y/N] "):
        print("Nothing was removed.")
        return
    for removal in removals:
        remove(removal)
    print(f"Removed {total} from {count}.")


def find_removals(args: argparse.Namespace) -> list[Removal]:
    """Return what the options choose."""
    removals = []
    for found in find_runs(args.paths):
        whole = find_unevaluated(found) if args.runs else None
        removal = whole or find_checkpoints(found, args.parts)
        removals += [removal] if removal else []
    return removals


def _agrees(question: str) -> bool:
    """Return whether the user agrees.

    Raises:
        UserError: there is nobody to ask.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError("Nothing was removed: there is no terminal to ask on. Give --yes to remove it.")
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
