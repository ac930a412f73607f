"""Train, resume or evaluate with DI-engine's options, without a command.

`-m eval` evaluates a checkpoint; every other mode trains one run, on this process or on those of a launcher.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_run_options, check_at_least, check_run_options, start
from ding_lite.entry.pipelines import MODES
from ding_lite.utils.registry import ConfigError

USAGE = """-c FILE [-m MODE] [-s SEED] [--nproc N [--divide]] [--max-restarts K] [key=value ...]
       ding_lite -m eval --ckpt FILE_OR_DIR [-c FILE] [-s SEED] [--episodes N] [key=value ...]"""
EXAMPLES = """
ding_lite -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py -s 0
ding_lite -m serial -c CONFIG policy.learn.batch_size=16 max_env_step=20000
ding_lite -m rpc -c dizoo/classic_control/cartpole/config/cartpole_pg_rpc_config.py --nproc 3
python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite -c CONFIG --divide
ding_lite -m eval --ckpt EXPERIMENT
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-m",
        "--mode",
        choices=(*MODES, "eval"),
        metavar="MODE",
        help=f"eval evaluates a checkpoint; {', '.join(MODES)} train (default: as the policy learns)",
    )
    parser.add_argument("-c", "--config", metavar="FILE", help="python file with main_config and create_config")
    parser.add_argument("-s", "--seed", type=int, help="used instead of the config's seed")
    add_run_options(parser)
    parser.add_argument(
        "--ckpt",
        help="checkpoint to evaluate, or a run's directory, for its best checkpoint; its config is used unless "
        "-c names another",
    )
    parser.add_argument("--episodes", type=int, help="episodes to evaluate, instead of env.n_evaluator_episode")
    parser.add_argument(
        "words", nargs="*", metavar="key=value", help="change a key, such as policy.learn.batch_size=16"
    )


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    mistake = _find_mistake(args)
    if mistake:
        raise ConfigError(f"{mistake}.")
    if args.mode == "eval":
        check_at_least(args, episodes=1)
    else:
        check_run_options(args)
    args.resume = None
    start(args)


def _find_mistake(args: argparse.Namespace) -> str:
    """Return a message about an option that is missing or has no effect; empty if there is no mistake."""
    if args.mode == "eval":
        if args.ckpt is None:
            return "--ckpt is missing: give the checkpoint to evaluate"
        if args.nproc > 1 or args.max_restarts or args.divide:
            return "a checkpoint is evaluated by one process: leave out --nproc, --max-restarts and --divide"
        return ""
    if args.ckpt is not None or args.episodes is not None:
        return (
            "--ckpt and --episodes need -m eval; to start training from a checkpoint, set "
            "policy.learn.learner.hook.load_ckpt_before_run=FILE"
        )
    return "-c is missing: give the config file to train" if args.config is None else ""
