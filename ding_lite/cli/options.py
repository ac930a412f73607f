"""The options that several commands share, and the way to what needs torch."""

from __future__ import annotations

import argparse

from ding_lite.utils.dist.interrupt import ends_at_interrupt


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options about the processes of a run."""
    parser.add_argument("--nproc", type=int, default=1, metavar="N", help="processes that train together")
    parser.add_argument(
        "--divide",
        action="store_true",
        help="divide batch_size, n_sample and n_episode by the number of processes, so that they take the same "
        "learning steps as one process with this config; sets policy.multi_gpu=True",
    )
    add_restarts(parser)
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it


def add_restarts(parser: argparse.ArgumentParser) -> None:
    """Declare the option about restarts."""
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="K", help="after a failure, restart at most K times and resume"
    )


def check_run_options(args: argparse.Namespace) -> str:
    """Return a message about a mistake in the options about processes; empty if there is none."""
    if args.nproc < 1 or args.max_restarts < 0:
        return f"expected --nproc >= 1 and --max-restarts >= 0, got {args.nproc} and {args.max_restarts}"
    if args.divide and args.mode == "rpc":
        return "in mode rpc only the agent learns, and n_episode counts for each observer: leave out --divide"
    return ""


def start(args: argparse.Namespace) -> None:
    """Train, resume or evaluate, see `running.run`. Loading torch takes seconds, in which Ctrl-C is one line too."""
    with ends_at_interrupt():
        from ding_lite.cli.running import run  # noqa: PLC0415  (it loads torch)

    run(args)
