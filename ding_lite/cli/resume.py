"""Continue the run in a directory from its newest checkpoint.

An interrupted run continues as if it had never stopped. A finished one needs a new limit, such as max_env_step=40000.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_processes, check_run_options, start

USAGE = "DIR [--nproc N] [--max-restarts K] [key=value ...]"
EXAMPLES = """
ding_lite resume EXPERIMENT
ding_lite resume EXPERIMENT --nproc 2
ding_lite resume EXPERIMENT max_env_step=40000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resume", metavar="DIR", help="the run's directory")
    add_processes(parser)


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    args.mode = args.config = args.seed = None
    args.divide = False
    check_run_options(args)
    start(args)
