"""The console command `ding_lite`, also `python -m ding_lite` under a launcher."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ding_lite import __version__, entry
from ding_lite.utils.registry import ConfigError, UserError, closest

LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter"}  # and what result.json says of them
MODES = {
    "serial": "serial_pipeline",
    "serial_onpolicy": "serial_pipeline_onpolicy",
    "offline": "serial_pipeline_offline",
    "bc": "serial_pipeline_bc",
    "rpc": "serial_pipeline_rpc",
}
USAGE = """
  ding_lite [-m serial | serial_onpolicy | offline | bc | rpc] -c FILE [-s SEED] [--nproc N] [--max-restarts K]
            [key=value ...]
  ding_lite resume DIR [--nproc N] [--max-restarts K] [key=value ...]
  ding_lite -m eval --ckpt FILE [-c FILE] [-s SEED] [--episodes N] [key=value ...]"""
EXAMPLES = """examples:
  ding_lite -m serial -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py -s 0
  ding_lite -m serial -c CONFIG policy.learn.batch_size=16 max_env_step=20000
  ding_lite -m serial_onpolicy -c dizoo/classic_control/cartpole/config/cartpole_ppo_config.py
  ding_lite -m offline -c CONFIG policy.collect.data_path=expert.hdf5 max_train_iter=10000
  ding_lite -m serial -c CONFIG --nproc 2 --max-restarts 3
  ding_lite -m rpc -c dizoo/classic_control/cartpole/config/cartpole_pg_rpc_config.py --nproc 3
  python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite -m serial -c CONFIG policy.multi_gpu=True
  ding_lite resume EXPERIMENT --nproc 2
  ding_lite resume EXPERIMENT max_env_step=40000
  ding_lite -m eval --ckpt EXPERIMENT/ckpt/ckpt_best.pth.tar
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake ends it with one line and status 2."""
    parser = _parser()
    args = parser.parse_intermixed_args(argv)
    args.resume = None
    if args.words[:1] == ["resume"]:
        args.resume, args.words = " ".join(args.words[1:2]), args.words[2:]
    _check_options(parser, args)
    sys.path.insert(0, os.getcwd())  # a console script lacks it, and import_names may name modules there
    # torch is loaded only now, so that --help and mistakes above answer at once.
    from ding_lite.utils.dist.context import DDPContext
    from ding_lite.utils.dist.launch_environment import read_launch

    if args.nproc > 1 or args.max_restarts > 0:
        if read_launch() is not None:
            parser.error("--nproc and --max-restarts start processes: leave them out under another launcher, or srun")
        try:
            raise SystemExit(_launch(args))
        except UserError as error:
            parser.exit(2, f"{error}\n")
    with DDPContext():
        limits, overrides = _split_limits(args.words)
        if args.mode == "eval":
            config = args.config or _config_beside(args.ckpt)
            entry.evaluate_checkpoint(config, args.ckpt, seed=args.seed, n_episode=args.episodes, overrides=overrides)
        elif args.resume is not None:
            _resume(args.resume, limits, overrides)
        else:
            pipeline = getattr(entry, MODES[args.mode or "serial"])
            pipeline(args.config, args.seed, overrides=overrides, **_limits_of(pipeline, limits))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "ding_lite",
        usage=USAGE,
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.add_argument(
        "-m",
        "--mode",
        choices=(*MODES, "eval"),
        help="train from a replay buffer (if left out), on-policy, from a data set (offline, bc), as an agent with "
        "N - 1 observers (rpc), or evaluate a checkpoint",
    )
    parser.add_argument("-c", "--config", help="python file with main_config and create_config")
    parser.add_argument("-s", "--seed", type=int, help="used instead of the config's seed")
    parser.add_argument("--nproc", type=int, default=1, metavar="N", help="processes that train together")
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="K", help="restarts from the newest checkpoint after a failure"
    )
    parser.add_argument("--ckpt", help="checkpoint to evaluate; its experiment's config is used unless -c names one")
    parser.add_argument("--episodes", type=int, help="episodes to evaluate, instead of env.n_evaluator_episode")
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it
    parser.add_argument(
        "words",
        nargs="*",
        metavar="key=value",
        help="such as policy.learn.batch_size=16; resume DIR goes on with the run in that directory instead",
    )
    return parser


def _check_options(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with the usage if an option is missing, or has no meaning beside the others."""
    if args.resume is not None:
        if not args.resume:
            parser.error("resume: give the directory of the run to go on with")
        if args.mode or args.config or args.seed is not None:
            parser.error("resume takes mode, config and seed from the directory: leave out -m, -c and -s")
    elif args.mode != "eval" and args.config is None:
        parser.error("-c is missing: give the config file to train")
    elif args.mode == "eval" and args.ckpt is None:
        parser.error("--ckpt is missing: give the checkpoint to evaluate")
    elif args.mode == "eval" and (args.nproc > 1 or args.max_restarts):
        parser.error("a checkpoint is evaluated by one process: leave out --nproc and --max-restarts")
    if args.nproc < 1 or args.max_restarts < 0:
        parser.error(f"expected --nproc >= 1 and --max-restarts >= 0, got {args.nproc} and {args.max_restarts}")


def _launch(args: argparse.Namespace) -> int:
    """Run this command on `--nproc` processes; return the exit status."""
    from ding_lite.entry.launcher.ranks import run_ranks

    limits, _ = _split_limits(args.words)
    pipeline = MODES[args.mode or "serial"]
    if args.resume is not None:
        pipeline = _pipeline_of(_check_resumable(args.resume, bool(args.words)))
    _limits_of(getattr(entry, pipeline), limits)
    what = ["resume", args.resume] if args.resume is not None else ["-m", args.mode or "serial", "-c", args.config]
    seed = [] if args.seed is None else ["-s", str(args.seed)]
    learns_alone = args.nproc == 1 or pipeline == MODES["rpc"]  # there the agent does
    together = [] if learns_alone else ["policy.multi_gpu=True"]  # before the user's own, which are stronger
    command = [sys.executable, "-u", "-m", "ding_lite", *what, *seed, *together, *args.words]
    return run_ranks(command, args.nproc, args.max_restarts)


def _resume(directory: str, limits: dict[str, int], overrides: Sequence[str]) -> None:
    """Go on with the run in a directory from its newest checkpoint, with its own config and limits unless given."""
    from ding_lite.config.config import read_config, read_limits

    path = _check_resumable(directory, bool(limits or overrides))
    config = read_config(path)
    own = ["policy.learn.resume_training=True", "policy.learn.learner.hook.load_ckpt_before_run="]
    pipeline = getattr(entry, _pipeline_of(path))
    overrides = [f"exp_name={directory}", *own, *overrides]
    pipeline(config, overrides=overrides, **{**read_limits(path), **_limits_of(pipeline, limits)})


def _pipeline_of(path: str) -> str:
    """Return the pipeline that a run's total_config.py calls.

    Raises:
        ConfigError: it calls none.
    """
    found = re.search(r"^ +from ding_lite\.entry import (\w+)$", Path(path).read_text(encoding="utf-8"), re.M)
    if found is None or found[1] not in entry.MODULES:
        raise ConfigError(
            f"'{path}' calls no pipeline of ding_lite.entry: it was altered. Run it with -c, as a new run."
        )
    return found[1]


def _limits_of(pipeline: Callable[..., Any], limits: dict[str, int]) -> dict[str, int]:
    """Return the limits under the names of the pipeline's parameters.

    Raises:
        ConfigError: it has no such limit.
    """
    known = inspect.signature(pipeline).parameters
    named = {"max_iter" if "max_iter" in known and key == "max_train_iter" else key: n for key, n in limits.items()}
    unknown = [key for key in named if key not in known]
    if unknown:
        raise ConfigError(f"{unknown[0]} is no limit of {pipeline.__name__}, which plays nothing: set max_train_iter.")
    return named


def _check_resumable(directory: str, changed: bool) -> str:
    """Return the config of a run that can go on; one that has finished can if a limit or a key is `changed`."""
    from ding_lite.utils.checkpoint.run_directory import read_result

    path = os.path.join(directory, "total_config.py")
    if not os.path.isdir(directory):
        raise ConfigError(f"Cannot resume '{directory}': there is no such directory.")
    if not os.path.isfile(path):
        raise ConfigError(f"Cannot resume '{directory}': not an experiment directory, it has no total_config.py.")
    result = read_result(directory)
    reason = result.get("stop_reason", "interrupted")
    if reason != "interrupted" and not changed:
        what = f"{reason}={2 * result[LIMITS[reason]]}" if reason in LIMITS else "env.stop_value=None"
        if reason == "train_epoch":
            what = f"policy.learn.train_epoch={2 * result['epoch']}"
        raise ConfigError(
            f"The run in '{directory}' has finished ({reason}): to train further, change that, such as {what}."
        )
    return path


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
