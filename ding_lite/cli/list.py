"""List what a config can name: policies, models, environments.

Policies are listed with the spaces of their actions. Environments are those of dizoo; any id that gymnasium knows runs
without one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from ding_lite.cli.output import show

KINDS = ("policies", "models", "encoders", "buffers", "environments")
USAGE = "[{policies,models,encoders,buffers,environments}]"
EXAMPLES = """
ding_lite list
ding_lite list policies
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("kind", nargs="?", choices=KINDS, help="one kind; all of them by default")


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    from ding_lite.cli.catalog import describe  # noqa: PLC0415  (it loads torch)

    folds = sys.stdout.isatty() or "COLUMNS" in os.environ  # any other file or pipe gets whole lines
    width = shutil.get_terminal_size().columns if folds else None
    show("\n\n".join(describe(kind, width) for kind in ([args.kind] if args.kind else KINDS)))
