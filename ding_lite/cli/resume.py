"""Continue the run in a directory from its newest checkpoint.

A run that was interrupted goes on as if it had not been. A finished one needs a new limit, such as max_env_step=40000.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_restarts, check_run_options, start
from ding_lite.utils.registry import ConfigError

USAGE = "DIR [--nproc N] [--max-restarts K] [key=value ...]"
EXAMPLES = """
ding_lite resume EXPERIMENT
ding_lite resume EXPERIMENT --nproc 2
ding_lite resume EXPERIMENT max_env_step=40000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resume", metavar="DIR", help="the run's directory")
    parser.add_argument("--nproc", type=int, default=1, metavar="N", help="processes that train together")
    add_restarts(parser)
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    args.mode = args.config = args.seed = None
    args.divide = False
    mistake = check_run_options(args)
    if mistake:
        raise ConfigError(f"{mistake}.")
    start(args)
