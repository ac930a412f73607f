"""Train a config file: one run, or one for each of several seeds.

The policy's class chooses the training loop. A run writes into the directory exp_name; for each of several seeds it is
NAME_seedN, and a table at the end compares them.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_run_options, add_seeds, check_at_least, check_run_options, check_seeds, start
from ding_lite.entry.pipelines import MODES

USAGE = """-c FILE [-s SEED ...] [--jobs J] [--resume] [--nproc N [--divide]] [--max-restarts K] [-m MODE]
       [key=value ...]"""
EXAMPLES = """
ding_lite train -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py
ding_lite train -c CONFIG -s 0 1 2 --jobs 2 max_env_step=20000
ding_lite train -c CONFIG -s 0 1 2 --jobs 2 max_env_step=20000 --resume
ding_lite train -c CONFIG --nproc 2 --divide policy.learn.batch_size=128
ding_lite train -c CONFIG --nproc 2 --max-restarts 3
python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite train -c CONFIG --divide
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="file with main_config and create_config")
    add_seeds(parser, "a run for each, instead of the config's seed")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="J", help="runs side by side, if there are several seeds"
    )
    parser.add_argument(
        "-m",
        "--mode",
        choices=(*MODES,),
        metavar="MODE",
        help=f"training loop, one of {', '.join(MODES)}; bc and serial_offline are DI-engine's names of offline "
        "(default: the policy's)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        dest="goes_on",
        help="continue what this command began: unfinished runs resume, finished ones stay, missing ones start",
    )
    add_run_options(parser)


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    check_run_options(args)
    check_at_least(args, jobs=1)
    check_seeds(args)
    if len(args.seeds or []) < 2 and not args.goes_on:
        args.seed, args.resume = (args.seeds or [None])[0], None
        start(args)
        return
    from ding_lite.cli.seeds import run_seeds  # noqa: PLC0415  (reading a config loads torch)

    raise SystemExit(run_seeds(args))
