"""Draw learning curves: the mean over seeds, with 95 % intervals.

Runs that differ only in their seed become one line. A directory that contains runs means all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ding_lite.cli.options import check_at_least
from ding_lite.cli.output import add_paths, show, show_notes
from ding_lite.results.groups import describe_groups, group_runs
from ding_lite.results.plot import PlotOptions, check_format, describe_parts, find_shortened, save_plot
from ding_lite.results.run import AXES, RETURN, Run, check_figure, find_runs
from ding_lite.results.statistics import AVERAGES
from ding_lite.utils.registry import UserError

USAGE = "PATH... [--by algorithm|env|run|KEY] [--x env_step|iteration|seconds] [--metric FIGURE]... [-o FILE]"
EXAMPLES = """
ding_lite plot runs
ding_lite plot cartpole_dqn_seed* cartpole_c51_seed* --by algorithm -o curves.pdf
ding_lite plot runs --by policy.nstep --x seconds --average iqm
ding_lite plot runs --metric eval/return_mean --metric train/total_loss
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_paths(parser)
    add_grouping(parser)
    add_drawing(parser)
    parser.add_argument(
        "-o", "--output", default="curves.png", metavar="FILE", help="picture: .png, .svg or .pdf (default: curves.png)"
    )
    parser.add_argument("--width", type=float, default=3.5, metavar="INCHES", help="a column of a paper (default: 3.5)")


def add_grouping(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say which runs belong together."""
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="group runs by 'algorithm', 'env', 'run' (each separately) or a config key such as policy.nstep (default: "
        "by all keys but the seed)",
    )
    parser.add_argument(
        "--average", choices=AVERAGES, default="mean", help="mean, or interquartile mean (default: mean)"
    )


def add_drawing(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say what is drawn."""
    parser.add_argument("--x", choices=list(AXES), default="env_step", help="the horizontal axis (default: env_step)")
    parser.add_argument(
        "--metric",
        action="append",
        metavar="FIGURE",
        help=f"figure of metrics.jsonl to draw; several times for several panels (default: {RETURN})",
    )
    parser.add_argument("--window", type=int, default=1, metavar="N", help="moving mean over N records of each run")
    parser.add_argument(
        "--hold",
        action="store_true",
        help="a run that reached its stop_value keeps its last value, so that the average does not end with it",
    )
    parser.add_argument("--each", action="store_true", help="draw every run too, as a thin line")
    parser.add_argument("--title", default="", help="title")


def read_options(args: argparse.Namespace, runs: Sequence[Run]) -> PlotOptions:
    """Return what to draw.

    Raises:
        UserError: a number is out of range, or no run has a figure.
    """
    check_at_least(args, window=1)
    metrics = tuple(dict.fromkeys(args.metric or [RETURN]))
    for metric in metrics:
        check_figure(runs, metric)
    return PlotOptions(metrics, args.x, args.average, args.window, args.hold, args.each, title=args.title)


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    output = Path(args.output)
    check_format(output)
    if not 1 <= args.width <= 50:
        raise UserError(f"expected --width from 1 to 50, got {args.width:g}.")
    runs = find_runs(args.paths)
    options = replace(read_options(args, runs), width=args.width)
    groups = group_runs(runs, args.by)
    save_plot(groups, output, options)
    notes = [*describe_groups(groups), *find_shortened(groups, options.metrics[0], args.x, args.hold)]
    show_notes([*notes, *describe_parts(groups)])
    show(str(output))
