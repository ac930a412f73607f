"""The console command `ding_lite`, also `python -m ding_lite` under a launcher: parses and checks the options.

`commands.py` carries them out. `main` imports it last, because it loads torch; `--help` and mistakes in the options
are therefore answered at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ding_lite import __version__
from ding_lite.entry.pipelines import MODES
from ding_lite.utils.dist.interrupt import ends_at_interrupt

USAGE = """
  ding_lite -c FILE [-s SEED] [--nproc N [--divide]] [--max-restarts K] [key=value ...]
  ding_lite resume DIR [--nproc N] [--max-restarts K] [key=value ...]
  ding_lite -m eval --ckpt FILE_OR_DIR [-c FILE] [-s SEED] [--episodes N] [key=value ...]"""
EXAMPLES = """examples:
  ding_lite -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py -s 0
  ding_lite -c CONFIG policy.learn.batch_size=16 max_env_step=20000
  ding_lite -c CONFIG policy.collect.data_path=expert.hdf5 max_train_iter=10000
  ding_lite -c CONFIG --nproc 2 --divide
  ding_lite -c CONFIG --nproc 2 --max-restarts 3
  ding_lite -m rpc -c dizoo/classic_control/cartpole/config/cartpole_pg_rpc_config.py --nproc 3
  python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite -c CONFIG --divide
  ding_lite resume EXPERIMENT --nproc 2
  ding_lite resume EXPERIMENT max_env_step=40000
  ding_lite -m eval --ckpt EXPERIMENT
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake ends it with one line and exit status 2.

    Args:
        argv: the arguments; None: those of this process.
    """
    parser = _parser()
    args = parser.parse_intermixed_args(argv)
    args.resume = None
    if args.words[:1] == ["resume"]:
        args.resume, args.words = " ".join(args.words[1:2]), args.words[2:]
    mistake = _find_mistake(args)
    if mistake:
        parser.error(mistake)
    sys.path.insert(0, os.getcwd())  # import_names may name modules there; a console script does not add it
    with ends_at_interrupt():
        from ding_lite.entry.commands import run  # noqa: PLC0415  (it loads torch, see above)

    run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "ding_lite",
        usage=USAGE,
        description=__doc__.partition(":")[0] + ".",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.add_argument(
        "-m",
        "--mode",
        choices=(*MODES, "eval"),
        help="eval evaluates a checkpoint; all others train. By default the policy's class chooses between serial, "
        "serial_onpolicy and offline. Give bc (DI-engine's name for offline) or rpc (an agent with N - 1 observers) "
        "yourself",
    )
    parser.add_argument("-c", "--config", help="python file with main_config and create_config")
    parser.add_argument("-s", "--seed", type=int, help="used instead of the config's seed")
    parser.add_argument("--nproc", type=int, default=1, metavar="N", help="processes that train together")
    parser.add_argument(
        "--divide",
        action="store_true",
        help="divide batch_size, n_sample and n_episode by the number of processes, so that they take the same "
        "learning steps as one process with this config; sets policy.multi_gpu=True",
    )
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="K", help="after a failure, restart at most K times and resume"
    )
    parser.add_argument(
        "--ckpt",
        help="checkpoint to evaluate, or a run's directory, whose best checkpoint is meant; its config is used unless "
        "-c names another",
    )
    parser.add_argument("--episodes", type=int, help="episodes to evaluate, instead of env.n_evaluator_episode")
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it
    parser.add_argument(
        "words",
        nargs="*",
        metavar="key=value",
        help="change a key, such as policy.learn.batch_size=16; or resume DIR: continue the run in that directory",
    )
    return parser


def _find_mistake(args: argparse.Namespace) -> str:
    """Return a message about an option that is missing or has no effect; empty if there is no mistake."""
    evaluates = args.mode == "eval"
    if args.resume == "":
        return "resume: give the directory of the run to continue"
    if args.resume and (args.mode or args.config or args.seed is not None or args.divide):
        return "resume reads mode, config, seed and sizes from the directory: leave out -m, -c, -s and --divide"
    if not evaluates and (args.ckpt is not None or args.episodes is not None):
        return (
            "--ckpt and --episodes need -m eval; to start training from a checkpoint, set "
            "policy.learn.learner.hook.load_ckpt_before_run=FILE"
        )
    if not evaluates and args.config is None and args.resume is None:
        return "-c is missing: give the config file to train"
    if evaluates and args.ckpt is None:
        return "--ckpt is missing: give the checkpoint to evaluate"
    if evaluates and (args.nproc > 1 or args.max_restarts or args.divide):
        return "a checkpoint is evaluated by one process: leave out --nproc, --max-restarts and --divide"
    if args.divide and args.mode == "rpc":
        return "in mode rpc only the agent learns, and n_episode counts for each observer: leave out --divide"
    if args.nproc < 1 or args.max_restarts < 0:
        return f"expected --nproc >= 1 and --max-restarts >= 0, got {args.nproc} and {args.max_restarts}"
    if args.episodes is not None and args.episodes < 1:
        return f"expected --episodes >= 1, got {args.episodes}"
    return ""


if __name__ == "__main__":
    main()
