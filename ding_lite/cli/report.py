"""Write curves, tables, configs and videos of runs into one page.

The file needs no other files and no network, so it can be sent as it is.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ding_lite.cli.compare import add_reference
from ding_lite.cli.options import check_at_least
from ding_lite.cli.output import add_paths, show, show_notes, write_text
from ding_lite.cli.plot import add_drawing, add_grouping, read_options
from ding_lite.results.compare import compare_groups
from ding_lite.results.groups import describe_groups, group_runs
from ding_lite.results.report import ReportOptions, render_report
from ding_lite.results.run import find_runs

USAGE = "PATH... [--by algorithm|env|run|KEY] [--x env_step|iteration|seconds] [-o FILE]"
EXAMPLES = """
ding_lite report runs
ding_lite report cartpole_dqn_seed* cartpole_c51_seed* --title "DQN and C51" -o cartpole.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_paths(parser)
    add_grouping(parser)
    add_reference(parser)
    add_drawing(parser)
    parser.add_argument("--videos", type=int, default=1, metavar="N", help="newest videos of each run (default: 1)")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="default: report.html")


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    check_at_least(args, videos=0, last=1)
    runs = find_runs(args.paths)
    plot = read_options(args, runs)
    groups = group_runs(runs, args.by)
    comparison = compare_groups(groups, args.threshold, args.against, args.average, args.last)
    options = ReportOptions(args.title or f"Runs in {os.path.basename(os.path.abspath(args.paths[0]))}", args.videos)
    write_text(Path(args.output), render_report(groups, comparison, plot, options))
    show_notes(describe_groups(groups))
    show(args.output)
