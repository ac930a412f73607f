"""What several commands share: options, a lazy import of what needs torch, what they print and write."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ding_lite.utils.registry import ConfigError, UserError


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options about the processes of a new run."""
    parser.add_argument(
        "--divide",
        action="store_true",
        help="the processes share batch, samples, environments and replay buffer of the config, so that any number "
        "takes the same learning steps: the same as policy.divide=True",
    )
    add_processes(parser)


def add_seeds(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Declare the seeds of runs, as `-s 0 1` or, like DI-engine, as `-s 0 -s 1`."""
    parser.add_argument(
        *("-s", "--seeds", "--seed"), type=int, nargs="+", action="extend", metavar="SEED", help=meaning, dest="seeds"
    )


def add_jobs(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare how many runs there are at a time."""
    help_text = f"runs side by side, if there are several {what} (default: 1; with --submit, all)"
    parser.add_argument("--jobs", type=int, metavar="J", help=help_text)


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Declare the options about the processes of any run."""
    parser.add_argument("--nproc", type=int, default=1, metavar="N", help="processes that train together")
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="K", help="after a failure, restart at most K times and resume"
    )
    parser.add_argument(
        "--submit",
        choices=("slurm", "local"),
        help="run each seed or trial as a job of a cluster; the words submit.KEY=VALUE are its options, such as "
        "submit.slurm_partition=gpu; local: jobs on this machine, to try it",
    )
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it


def check_run_options(args: argparse.Namespace) -> None:
    """Check the options of `add_run_options`, and separate the options of a cluster from the other words."""
    args.cluster_words = [word for word in args.words if word.startswith("submit.")]
    args.words = [word for word in args.words if word not in args.cluster_words]
    if args.cluster_words and not args.submit:
        raise ConfigError(f"{args.cluster_words[0]} is an option of a cluster: add --submit slurm, or leave it out.")
    if args.nproc < 1 or args.max_restarts < 0:
        raise ConfigError(f"expected --nproc >= 1 and --max-restarts >= 0, got {args.nproc} and {args.max_restarts}.")
    if args.divide and args.mode == "rpc":
        raise ConfigError(
            "in mode rpc only the agent learns, and n_episode counts for each observer: leave out --divide."
        )


def check_seeds(args: argparse.Namespace) -> None:
    """Check that no seed is given twice."""
    for index, seed in enumerate(args.seeds or []):
        if seed in args.seeds[:index]:
            raise ConfigError(f"-s: seed {seed} is given twice, and both runs would be the same: leave one out.")


def check_at_least(args: argparse.Namespace, **lowest: int) -> None:
    """Check that options are at least as large as these numbers, if they are given."""
    for name, least in lowest.items():
        value = getattr(args, name)
        if value is not None and value < least:
            raise ConfigError(f"expected --{name.replace('_', '-')} >= {least}, got {value}.")


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Declare the checkpoint to play with."""
    parser.add_argument(
        "path", metavar="PATH", help="a run's directory, whose best checkpoint is meant, or a checkpoint"
    )


def add_playing(parser: argparse.ArgumentParser) -> None:
    """Declare the checkpoint to play with, and how it plays."""
    add_checkpoint(parser)
    parser.add_argument("-s", "--seed", type=int, default=0, help="seed of the environment (default: 0)")
    parser.add_argument("--explore", action="store_true", help="act as in training, not greedily")


def start(args: argparse.Namespace) -> None:
    """Train, resume or evaluate, see `running.run`."""
    from ding_lite.cli.running import run  # noqa: PLC0415  (it loads torch)

    run(args)


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


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, and its directory if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise UserError(f"Cannot write '{path}': {error.strerror}.") from None
