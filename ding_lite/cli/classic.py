"""Train or evaluate with DI-engine's options, without a command.

`-m eval` evaluates a checkpoint; every other mode trains: one run, or one after another for several seeds.
"""

from __future__ import annotations

import argparse

from ding_lite.cli import train
from ding_lite.cli.options import add_run_options, add_seeds, check_at_least, start
from ding_lite.entry.pipelines import MODES
from ding_lite.utils.registry import ConfigError

USAGE = """-c FILE [-m MODE] [-s SEED ...] [--env-step N] [--train-iter N] [--exp-name DIR]
       [--nproc N [--divide]] [--max-restarts K] [key=value ...]
       ding_lite -m eval --ckpt FILE_OR_DIR [-c FILE] [-s SEED] [--episodes N] [--replay-path DIR] [key=value ...]"""
EXAMPLES = """
ding_lite -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py -s 0
ding_lite -m serial -c CONFIG -s 0 -s 1 --env-step 1e5
ding_lite -m serial -c CONFIG policy.learn.batch_size=16 max_env_step=20000
ding_lite -m rpc -c dizoo/classic_control/cartpole/config/cartpole_pg_rpc_config.py --nproc 3
python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite -c CONFIG --divide
ding_lite -m eval --ckpt EXPERIMENT
"""
WORDS = {  # DI-engine's options, and the key that each of them sets
    "--env-step": "max_env_step",
    "--train-iter": "max_train_iter",
    "--exp-name": "exp_name",
    "--replay-path": "env.replay_path",
}


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
    add_seeds(parser, "used instead of the config's seed; several train one run after another")
    add_run_options(parser)
    parser.add_argument(
        *("--ckpt", "--load-path"),
        help="checkpoint to evaluate, or a run's directory, for its best checkpoint; its config is used unless "
        "-c names another",
    )
    parser.add_argument("--episodes", type=int, help="episodes to evaluate, instead of env.n_evaluator_episode")
    for option, key in WORDS.items():
        parser.add_argument(option, metavar="VALUE", help=f"the same as {key}=VALUE")
    parser.add_argument(
        "words", nargs="*", metavar="key=value", help="change a key, such as policy.learn.batch_size=16"
    )


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    mistake = _find_mistake(args)
    if mistake:
        raise ConfigError(f"{mistake}.")
    values = {key: getattr(args, option[2:].replace("-", "_")) for option, key in WORDS.items()}
    args.words = [*(f"{key}={value}" for key, value in values.items() if value is not None), *args.words]
    if args.mode != "eval":
        args.jobs, args.goes_on = 1, False
        train.run(args)
        return
    check_at_least(args, episodes=1)
    args.seed, args.resume = (args.seeds or [None])[0], None
    start(args)


def _find_mistake(args: argparse.Namespace) -> str:
    """Return a message about an option that is missing or has no effect; empty if there is no mistake."""
    if args.mode == "eval":
        if args.ckpt is None:
            return "--ckpt is missing: give the checkpoint to evaluate"
        if args.nproc > 1 or args.max_restarts or args.divide or len(args.seeds or []) > 1:
            return (
                "a checkpoint is evaluated once, by one process: leave out --nproc, --max-restarts and --divide, and "
                "give one seed"
            )
        return ""
    if args.ckpt is not None or args.episodes is not None:
        return (
            "--ckpt and --episodes need -m eval; to start training from a checkpoint, set "
            "policy.learn.learner.hook.load_ckpt_before_run=FILE"
        )
    return "-c is missing: give the config file to train" if args.config is None else ""
