"""Evaluate a checkpoint over whole episodes.

The config is that of the run; words key=value change it.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_checkpoint

USAGE = "PATH [--episodes N] [-s SEED] [key=value ...]"
EXAMPLES = """
ding_lite eval EXPERIMENT
ding_lite eval EXPERIMENT/ckpt/ckpt_last.pth.tar --episodes 20 -s 1
ding_lite eval EXPERIMENT env.replay_path=videos
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_checkpoint(parser)
    parser.add_argument("--episodes", type=int, metavar="N", help="episodes, instead of env.n_evaluator_episode")
    parser.add_argument("-s", "--seed", type=int, help="used instead of the config's seed")


def run(args: argparse.Namespace) -> None:
    """Evaluate the checkpoint with the config of its run.

    Raises:
        UserError: a mistake in the arguments, or in the run's directory.
    """
    from ding_lite.cli.running import evaluate  # noqa: PLC0415  (it loads torch)
    from ding_lite.entry.eval_entry import find_pair  # noqa: PLC0415
    from ding_lite.results.run import find_checkpoint  # noqa: PLC0415

    checkpoint = find_checkpoint(args.path)
    evaluate(find_pair(checkpoint, "give the run's directory, or a checkpoint in its ckpt folder"), checkpoint, args)
