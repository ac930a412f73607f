"""Write a starter config for an environment and an algorithm.

The file has the keys that matter most, each with its default and its meaning. Without an algorithm it is PPO, or BDQ if
an action has several discrete parts. A pair that does not fit is refused, and no file is overwritten.
"""

from __future__ import annotations

import argparse
import shlex

USAGE = "ENV_ID [ALGORITHM] [-o FILE]"
EXAMPLES = """
ding_lite new CartPole-v1
ding_lite new Pendulum-v1 sac
ding_lite new PongNoFrameskip-v4 dqn -o my_pong.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("env_id", metavar="ENV_ID", help="a gymnasium id, or an Atari game such as ALE/Pong-v5")
    parser.add_argument("algorithm", metavar="ALGORITHM", nargs="?", help="a policy's name; ding_lite list policies")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write; by default ENV_ALGORITHM_config.py")


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    from ding_lite.cli.starter import write_starter  # noqa: PLC0415  (it loads torch)

    path = write_starter(args.env_id, args.algorithm, args.output)
    print(f"wrote {path}; train it with\n  ding_lite train -c {shlex.quote(str(path))}")
