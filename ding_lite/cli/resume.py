"""Continue runs, each from the newest checkpoint in its directory.

An interrupted run continues as if it had never stopped. A finished one needs a new limit, such as max_env_step=40000;
of several directories, those whose runs have finished stay as they are without one.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_processes, check_at_least, check_run_options, start

USAGE = "DIR... [--jobs J] [--nproc N] [--max-restarts K] [key=value ...]"
EXAMPLES = """
ding_lite resume EXPERIMENT
ding_lite resume EXPERIMENT --nproc 2
ding_lite resume EXPERIMENT max_env_step=40000
ding_lite resume EXPERIMENT_seed0 EXPERIMENT_seed1 EXPERIMENT_seed2 --jobs 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("directories", metavar="DIR", nargs="+", help="a run's directory")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="runs side by side, if there are several")
    add_processes(parser)


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    args.mode = args.config = args.seed = None
    args.divide = False
    check_run_options(args)
    check_at_least(args, jobs=1)
    if len(args.directories) == 1:
        args.resume = args.directories[0]
        start(args)
        return
    from ding_lite.cli.seeds import resume_runs  # noqa: PLC0415  (reading a config loads torch)

    raise SystemExit(resume_runs(args))
