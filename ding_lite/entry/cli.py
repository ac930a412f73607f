"""The console command `ding_lite`, also `python -m ding_lite` under a launcher."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ding_lite import __version__
from ding_lite.utils.registry import ConfigError, closest

LIMITS = ("max_env_step", "max_train_iter")
EXAMPLES = """examples:
  ding_lite -m serial -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py -s 0
  ding_lite -m serial -c CONFIG policy.learn.batch_size=16 max_env_step=20000
  ding_lite -m serial_onpolicy -c dizoo/classic_control/cartpole/config/cartpole_ppo_config.py
  python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite -m serial -c CONFIG policy.multi_gpu=True
  ding_lite -m eval --ckpt EXPERIMENT/ckpt/ckpt_best.pth.tar
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake ends it with one line and status 2."""
    parser = argparse.ArgumentParser(
        "ding_lite", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.add_argument(
        "-m",
        "--mode",
        choices=("serial", "serial_onpolicy", "eval"),
        default="serial",
        help="train from a replay buffer, train on-policy, or evaluate a checkpoint",
    )
    parser.add_argument("-c", "--config", help="python file with main_config and create_config")
    parser.add_argument("-s", "--seed", type=int, help="used instead of the config's seed")
    parser.add_argument("--ckpt", help="checkpoint to evaluate; its experiment's config is used unless -c names one")
    parser.add_argument("--episodes", type=int, help="episodes to evaluate, instead of env.n_evaluator_episode")
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="such as policy.learn.batch_size=16")
    args = parser.parse_intermixed_args(argv)
    if args.mode != "eval" and args.config is None:
        parser.error("-c is missing: give the config file to train")
    if args.mode == "eval" and args.ckpt is None:
        parser.error("--ckpt is missing: give the checkpoint to evaluate")
    sys.path.insert(0, os.getcwd())  # a console script lacks it, and import_names may name modules there
    # torch is loaded only now, so that --help and mistakes above answer at once.
    from ding_lite.entry.eval_entry import evaluate_checkpoint
    from ding_lite.entry.serial_entry import serial_pipeline
    from ding_lite.entry.serial_entry_onpolicy import serial_pipeline_onpolicy
    from ding_lite.utils.launch import DDPContext

    with DDPContext():
        limits, overrides = _split_limits(args.overrides)
        if args.mode != "eval":
            pipeline = serial_pipeline if args.mode == "serial" else serial_pipeline_onpolicy
            pipeline(args.config, args.seed, overrides=overrides, **limits)  # type: ignore[arg-type]
        else:
            config = args.config or _config_beside(args.ckpt)
            evaluate_checkpoint(config, args.ckpt, seed=args.seed, n_episode=args.episodes, overrides=overrides)


def _config_beside(checkpoint: str) -> str:
    """Return the config of the experiment that a checkpoint lies in."""
    if not os.path.isfile(checkpoint):
        raise ConfigError(f"The checkpoint '{checkpoint}' does not exist.")
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(checkpoint))), "total_config.py")
    if not os.path.isfile(path):
        raise ConfigError(f"'{checkpoint}' does not lie in the ckpt folder of an experiment: name its config with -c.")
    return path


def _split_limits(items: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Separate `max_env_step=...` and `max_train_iter=...`, the pipeline's own, from overrides of the config."""
    limits: dict[str, int] = {}
    overrides = []
    for item in items:
        key, sep, text = item.partition("=")
        if not sep:
            raise ConfigError(f"'{item}' is not key=value, such as policy.learn.batch_size=16 or max_env_step=20000.")
        if key in LIMITS:
            try:
                limits[key] = int(float(text))
            except ValueError:
                raise ConfigError(f"{key} must be a number of steps, got '{text}'.") from None
        elif "." not in key and key not in ("exp_name", "seed"):
            raise ConfigError(f"Unknown option '{key}'.{closest(key, (*LIMITS, 'exp_name', 'seed', 'policy', 'env'))}")
        else:
            overrides.append(item)
    return limits, overrides


if __name__ == "__main__":
    main()
