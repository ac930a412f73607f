"""Compare runs in a table: returns, steps to a threshold.

Runs that differ only in their seed are one row. With --by run every run is a row.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from ding_lite.cli.options import check_at_least
from ding_lite.cli.output import add_paths, show, show_notes, write_text
from ding_lite.cli.plot import add_grouping
from ding_lite.results.compare import compare_groups, render_csv, render_markdown, render_text
from ding_lite.results.groups import describe_groups, group_runs
from ding_lite.results.run import find_runs
from ding_lite.utils.registry import UserError

USAGE = (
    "PATH... [--by algorithm|env|run|KEY] [--threshold RETURN] [--against GROUP] [--last K] [--format FORMAT] [-o FILE]"
)
EXAMPLES = """
ding_lite compare runs
ding_lite compare cartpole_dqn_seed* cartpole_c51_seed* --threshold 195
ding_lite compare runs --by run --last 10
ding_lite compare runs --format markdown
ding_lite compare runs -o table.csv
"""
FORMATS = {".txt": "text", ".md": "markdown", ".csv": "csv"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_paths(parser)
    add_grouping(parser)
    add_reference(parser)
    parser.add_argument("--format", choices=list(FORMATS.values()), help="default: by the ending of FILE, else text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file: .txt, .md or .csv")


def add_reference(parser: argparse.ArgumentParser) -> None:
    """Declare what groups are compared with."""
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="RETURN",
        help="evaluation return to reach (default: the config's stop_value)",
    )
    parser.add_argument(
        "--against", metavar="GROUP", help="the group that others are compared with (default: the first)"
    )
    parser.add_argument(
        "--last", type=int, default=1, metavar="K", help="last return: mean of the last K evaluations (default: 1)"
    )


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    check_at_least(args, last=1)
    suffix = Path(args.output).suffix if args.output else ".txt"
    if args.format is None and suffix not in FORMATS:
        raise UserError(f"'{args.output}': expected a name that ends in {', '.join(FORMATS)}, or --format.")
    groups = group_runs(find_runs(args.paths), args.by)
    comparison = compare_groups(groups, args.threshold, args.against, args.average, args.last)
    kind = args.format or FORMATS[suffix]
    if kind == "text":
        text = render_text(comparison, shutil.get_terminal_size().columns)
    else:
        text = render_csv(comparison) if kind == "csv" else render_markdown(comparison)
    show_notes(describe_groups(groups))
    if args.output:
        write_text(Path(args.output), text + "\n")
    show(args.output or text)
