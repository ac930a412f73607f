"""The commands that read what runs left."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ding_lite.cli.parsers import Command, add_paths, check_at_least, show_notes, write_file
from ding_lite.results.cleaning import Removal, find_checkpoints, find_unevaluated, list_runs, remove, size_of
from ding_lite.results.compare import (
    compare_groups,
    describe_scores,
    read_references,
    render,
    render_tables,
    score_groups,
    score_table,
)
from ding_lite.results.groups import Group, describe_groups, group_runs
from ding_lite.results.plot import (
    FORMATS,
    PlotOptions,
    describe_picture,
    render_plot,
    render_profiles,
)
from ding_lite.results.report import render_report
from ding_lite.results.run import AXES, RETURN, Run, check_figure, find_directories, find_runs
from ding_lite.results.statistics import AVERAGES
from ding_lite.results.table import show_size
from ding_lite.utils.printable import printable, show
from ding_lite.utils.registry import UserError

TABLES = {".txt": "text", ".md": "markdown", ".csv": "csv"}


class Plot(Command):
    """Draw learning curves: the mean over seeds, with 95 % intervals.

    Runs that differ only in their seed become one line. A directory that contains runs means all of them.
    """

    examples = """
    ding_lite plot runs
    ding_lite plot cartpole_dqn_seed* cartpole_c51_seed* --by algorithm -o curves.pdf
    ding_lite plot runs --by policy.nstep --x seconds --average iqm
    ding_lite plot runs --metric eval/return_mean --metric train/total_loss
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_paths(parser)
        add_grouping(parser)
        add_drawing(parser)
        parser.add_argument(
            "-o",
            "--output",
            default="curves.png",
            metavar="FILE",
            help="picture: .png, .svg or .pdf (default: curves.png)",
        )
        parser.add_argument(
            "--width", type=float, default=3.5, metavar="INCHES", help="a column of a paper (default: 3.5)"
        )

    def run(self, args: argparse.Namespace) -> None:
        output = Path(args.output)
        if output.suffix not in FORMATS:
            raise UserError(f"'{output}': expected a name that ends in {', '.join(FORMATS)}.")
        if not 1 <= args.width <= 50:
            raise UserError(f"expected --width from 1 to 50, got {args.width:g}.")
        runs = find_runs(args.paths)
        options = replace(read_options(args, runs), width=args.width)
        groups = group_runs(runs, args.by)
        write_file(output, render_plot(groups, output.suffix[1:], options))
        show_notes([*describe_groups(groups), *describe_picture(groups, options)])
        show(str(output))


class Compare(Command):
    """Compare runs in a table: returns, steps, scores over tasks.

    Runs that differ only in their seed are one row. With --by run every run is a row.
    """

    examples = """
    ding_lite compare runs
    ding_lite compare cartpole_dqn_seed* cartpole_c51_seed* --threshold 195
    ding_lite compare runs --by run --last 10
    ding_lite compare runs --format markdown
    ding_lite compare runs -o table.csv
    ding_lite compare runs --normalize returns.csv -o profiles.pdf
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_paths(parser)
        add_grouping(parser)
        add_reference(parser)
        parser.add_argument(
            "--normalize",
            type=Path,
            metavar="FILE",
            help="CSV with the columns env, random, reference: compare over all environments, by scores that are 0 for "
            "the random and 1 for the reference return; --threshold is then a score (default: 0.9)",
        )
        parser.add_argument("--format", choices=list(TABLES.values()), help="default: by the ending of FILE, else text")
        parser.add_argument(
            "-o",
            "--output",
            type=Path,
            metavar="FILE",
            help="write to a file: .txt, .md or .csv; with --normalize also a picture of the performance profiles, "
            "beside the table: .png, .svg or .pdf",
        )

    def run(self, args: argparse.Namespace) -> None:
        check_at_least(args, last=1)
        suffix = args.output.suffix if args.output else ".txt"
        endings = [*TABLES, *(FORMATS if args.normalize else ())]
        if suffix not in endings and (args.format is None or suffix in FORMATS):
            end = "; a picture needs --normalize, or the command plot." if suffix in FORMATS else ", or --format."
            raise UserError(f"'{args.output}': expected a name that ends in {', '.join(endings)}{end}")
        groups = group_runs(find_runs(args.paths), args.by)
        kind = args.format or TABLES.get(suffix, "text")
        if args.normalize:
            text = self._scores(args, groups, kind)
        else:
            comparison = compare_groups(groups, args.threshold, args.against, args.average, args.last)
            text = render(comparison, kind, shutil.get_terminal_size().columns)
        show_notes(describe_groups(groups))
        if args.output and suffix not in FORMATS:
            write_file(args.output, text + "\n")
            text = str(args.output)
        show(text)

    def _scores(self, args: argparse.Namespace, groups: Sequence[Group], kind: str) -> str:
        """Return the table over all environments, and draw the profiles."""
        scores = score_groups(groups, read_references(args.normalize), args.last)
        table = score_table(scores, args.threshold, args.against, plain=kind == "csv")
        if args.output and args.output.suffix in FORMATS:
            write_file(args.output, render_profiles(scores, args.output.suffix[1:]))
        if kind == "csv":
            return table.csv()
        words = describe_scores(scores, list(dict.fromkeys(group.env for group in groups)), args.against)
        return render_tables([("", table)], words, kind, shutil.get_terminal_size().columns)


class Report(Command):
    """Write curves, tables, configs and videos of runs into one page.

    The file needs no other files and no network, so it can be sent as it is.
    """

    examples = """
    ding_lite report runs
    ding_lite report cartpole_dqn_seed* cartpole_c51_seed* --title "DQN and C51" -o cartpole.html
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_paths(parser)
        add_grouping(parser)
        add_reference(parser)
        add_drawing(parser)
        parser.add_argument("--videos", type=int, default=1, metavar="N", help="newest videos of each run (default: 1)")
        parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="default: report.html")

    def run(self, args: argparse.Namespace) -> None:
        check_at_least(args, videos=0, last=1)
        runs = find_runs(args.paths)
        plot = read_options(args, runs)
        groups = group_runs(runs, args.by)
        comparison = compare_groups(groups, args.threshold, args.against, args.average, args.last)
        title = args.title or f"Runs in {os.path.basename(os.path.abspath(args.paths[0]))}"
        write_file(Path(args.output), render_report(groups, comparison, plot, title, args.videos))
        show_notes(describe_groups(groups))
        show(args.output)


class Runs(Command):
    """List the runs in a directory: how they ended, best return, size."""

    examples = """
    ding_lite runs
    ding_lite runs experiments
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", nargs="?", default=".", metavar="DIR", help="default: the current directory")

    def run(self, args: argparse.Namespace) -> None:
        root = Path(args.directory)
        if not root.is_dir():
            raise UserError(f"'{root}' does not exist or is not a directory: give one that contains runs.")
        directories = list(find_directories(root))
        table = [list_runs(directories, root).text(shutil.get_terminal_size().columns)] if directories else []
        total = show_size(size_of(directories))
        show("\n".join([*table, f"{len(directories)} run{'s' * (len(directories) != 1)}, {total}"]))


class Clean(Command):
    """Remove checkpoints that ended runs do not need; asks first.

    The best, the last and the newest checkpoint stay, so a run can still be evaluated and resumed. Active runs and runs
    that were killed are left alone. --parts also removes replay buffers, and --runs whole runs without evaluations.
    """

    examples = """
    ding_lite clean experiments
    ding_lite clean cartpole_seed0 --parts
    ding_lite clean experiments --runs --yes
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_paths(parser)
        parser.add_argument(
            "--parts",
            action="store_true",
            help="also what the ranks keep with the newest checkpoint, such as replay buffers; a finished run can then "
            "be evaluated, but not be resumed with a higher limit",
        )
        parser.add_argument("--runs", action="store_true", help="also whole runs that ended without an evaluation")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def run(self, args: argparse.Namespace) -> None:
        removals: list[Removal] = []
        for found in find_runs(args.paths):
            whole = find_unevaluated(found) if args.runs else None
            removal = whole or find_checkpoints(found, args.parts)
            removals += [removal] if removal else []
        if not removals:
            print("There is nothing to remove.")
            return
        for removal in removals:
            show(f"{printable(str(removal.run.path))}\n  {removal.what}, {show_size(removal.size)}")
        total = show_size(sum(removal.size for removal in removals))
        count = f"{len(removals)} run{'s' * (len(removals) > 1)}"
        if not args.yes and not _agrees(f"Remove {total} from {count}? [y/N] "):
            print("Nothing was removed.")
            return
        for removal in removals:
            remove(removal)
        print(f"Removed {total} from {count}.")


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
    """Return what to draw."""
    check_at_least(args, window=1)
    metrics = tuple(dict.fromkeys(args.metric or [RETURN]))
    for metric in metrics:
        check_figure(runs, metric)
    return PlotOptions(metrics, args.x, args.average, args.window, args.hold, args.each, title=args.title)


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


def _agrees(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError("Nothing was removed: there is no terminal to ask on. Give --yes to remove it.")
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
