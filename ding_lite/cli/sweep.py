"""The command that searches for hyperparameters."""

from __future__ import annotations

import argparse
import warnings

from ding_lite.cli.options import add_run_options, add_seeds, check_at_least, check_run_options, check_seeds
from ding_lite.cli.parsers import Command
from ding_lite.utils.registry import UserError, load_extra


class Sweep(Command):
    """Search for the best values of some keys, with Optuna.

    key=low..high is a range of numbers, with :log, :int or a step such as :0.1 after it; key=a,b,c is a choice; any
    other key=value is the same in all trials. A trial trains with each seed, and its score is the mean of their best
    evaluations. Trials that fall behind are ended early. The same command continues a sweep, and several machines may
    share one.
    """

    usage = """-c FILE key=low..high|a,b,c ... [--trials N] [--jobs J] [-s SEED ...] [--storage URL] [--submit slurm]
         [key=value ...]"""
    examples = """
    ding_lite sweep -c CONFIG policy.learn.learning_rate=1e-4..1e-2:log policy.learn.batch_size=32,64 max_env_step=20000
    ding_lite sweep -c CONFIG policy.nstep=1..5 --trials 30 --jobs 2 -s 0 1 2 max_env_step=20000
    ding_lite sweep -c CONFIG policy.nstep=1,3 policy.learn.batch_size=32,64 --sampler grid -o grid
    ding_lite sweep -c CONFIG policy.nstep=1..5 --storage postgresql://USER@HOST/DATABASE
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-c", "--config", required=True, metavar="FILE", help="file with main_config and create_config"
        )
        parser.add_argument(
            "--trials",
            type=int,
            metavar="N",
            help="trials of the whole sweep (default: 20; with a grid, all its points)",
        )
        parser.add_argument("--jobs", type=int, default=1, metavar="J", help="trials side by side (default: 1)")
        add_seeds(parser, "runs of each trial (default: the config's)")
        parser.add_argument(
            "--score", choices=("best", "last"), default="best", help="evaluation of a run that counts (default: best)"
        )
        parser.add_argument("--sampler", choices=("tpe", "random", "grid"), default="tpe", help="default: tpe")
        parser.add_argument("--pruner", choices=("median", "none"), default="median", help="default: median")
        parser.add_argument(
            "--prune-after", type=int, default=5, metavar="N", help="complete trials before any is pruned (default: 5)"
        )
        parser.add_argument(
            "-o", "--output", default="", metavar="DIR", help="the sweep's directory (default: EXP_NAME_sweep)"
        )
        parser.add_argument(
            "--storage", default="", metavar="URL", help="database of Optuna, or path of a journal (default: in DIR)"
        )
        add_run_options(parser)

    def run(self, args: argparse.Namespace) -> None:
        args.mode = None
        check_run_options(args)
        check_seeds(args)
        check_at_least(args, trials=1, jobs=1, prune_after=0)
        optuna = load_extra("optuna", "sweep")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module=r"optuna|ding_lite\.sweep")  # its remarks about each trial
        from ding_lite.cli.running import check_limits, split_words  # noqa: PLC0415  (it loads torch)
        from ding_lite.config import read_pair  # noqa: PLC0415
        from ding_lite.sweep.driver import Sweep  # noqa: PLC0415
        from ding_lite.sweep.space import first_values, read_words, to_words  # noqa: PLC0415
        from ding_lite.utils.ranks.launch_environment import read_launch  # noqa: PLC0415

        if read_launch() is not None:
            raise UserError("A sweep starts processes of its own: leave the launcher out.")
        space, words = read_words(args.words)
        limits, words = split_words(words)
        pair = read_pair(args.config)
        saved_limits = check_limits(pair, limits, [*words, *to_words(first_values(space))])
        raise SystemExit(Sweep(args, pair, space, words, limits).run(saved_limits))
