"""The commands that train: with our options, with those of DI-engine, on from a checkpoint, or many trials."""

from __future__ import annotations

import argparse
import warnings

from ding_lite.cli.parsers import (
    Command,
    add_jobs,
    add_processes,
    add_run_options,
    add_seeds,
    add_together,
    check_at_least,
    check_run_options,
)
from ding_lite.run.pipelines import MODES
from ding_lite.utils.ranks.launch_environment import read_launch
from ding_lite.utils.registry import ConfigError, UserError, load_extra

WORDS = {  # DI-engine's options, and the key that each of them sets
    "--env-step": "max_env_step",
    "--train-iter": "max_train_iter",
    "--exp-name": "exp_name",
    "--replay-path": "env.replay_path",
}

TRIALS_IN_STEP = 8  # default of `sweep --together --jobs`


class Train(Command):
    """Train a config file: one run, or one for each of several seeds.

    A word key=value changes a key of the config; max_env_step, max_train_iter and max_seconds limit the run. The
    policy's class chooses the training loop. A run writes into the directory exp_name; for each of several seeds it is
    NAME_seedN, and a table at the end compares them.
    """

    takes_words = True
    examples = """
    ding_lite train -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py
    ding_lite train -c CONFIG -s 0 1 2 --jobs 2 max_env_step=20000
    ding_lite train -c CONFIG -s 0 1 2 --jobs 2 max_env_step=20000 --resume
    ding_lite train -c CONFIG -s 0 1 2 3 4 --together max_env_step=20000
    ding_lite train -c CONFIG --nproc 2 --divide policy.learn.batch_size=128
    ding_lite train -c CONFIG --nproc 2 --max-restarts 3
    ding_lite train -c CONFIG -s 0 1 2 --nproc 8 --submit slurm submit.slurm_partition=cpu submit.timeout_min=240
    python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite train -c CONFIG --divide
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-c", "--config", required=True, metavar="FILE", help="file with main_config and create_config"
        )
        add_seeds(parser, "a run for each, instead of the config's seed")
        add_jobs(parser, "seeds")
        add_together(parser)
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

    def run(self, args: argparse.Namespace) -> None:
        check_run_options(args)
        check_at_least(args, jobs=1)
        from ding_lite.cli.running import run, run_seeds  # noqa: PLC0415  (reading a config loads torch)

        args.seed, args.resume = (args.seeds or [None])[0], None
        if args.together:
            from ding_lite.cli.together import run_together  # noqa: PLC0415

            raise SystemExit(run_together(args))
        if len(args.seeds or []) > 1 or args.submit:
            raise SystemExit(run_seeds(args))
        run(args)


class Resume(Command):
    """Continue runs, each from the newest checkpoint in its directory.

    An interrupted run continues as if it had never stopped. A finished one needs a new limit, such as
    max_env_step=40000; without one it is an error, or if there are several directories, the run stays as it is.
    """

    takes_words = True
    examples = """
    ding_lite resume EXPERIMENT
    ding_lite resume EXPERIMENT --nproc 2
    ding_lite resume EXPERIMENT max_env_step=40000
    ding_lite resume EXPERIMENT_seed0 EXPERIMENT_seed1 EXPERIMENT_seed2 --jobs 2
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directories", metavar="DIR", nargs="+", help="a run's directory")
        add_jobs(parser, "directories")
        add_together(parser)
        add_processes(parser)
        parser.add_argument(
            "--allow-lost-replay",
            action="store_true",
            help="if parts of the checkpoint are lost, as with a machine, resume from the others: environments of the "
            "lost parts begin anew",
        )

    def run(self, args: argparse.Namespace) -> None:
        args.mode = args.config = args.seed = args.seeds = None
        args.divide = args.goes_on = False
        args.words = ["policy.learn.allow_lost_replay=True"] * args.allow_lost_replay + args.words
        check_run_options(args)
        check_at_least(args, jobs=1)
        from ding_lite.cli.running import resume_runs, run  # noqa: PLC0415  (reading a config loads torch)

        args.resume = args.directories[0]
        if args.together:
            from ding_lite.cli.together import run_together  # noqa: PLC0415

            raise SystemExit(run_together(args))
        if len(args.directories) > 1 or args.submit:
            raise SystemExit(resume_runs(args))
        run(args)


class Classic(Command):
    """Train or evaluate with DI-engine's options, without a command.

    `-m eval` evaluates a checkpoint; every other mode trains: one run, or one after another for several seeds.
    """

    takes_words = True
    examples = """
    ding_lite -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py -s 0
    ding_lite -m serial -c CONFIG -s 0 -s 1 --env-step 1e5
    ding_lite -m serial -c CONFIG policy.learn.batch_size=16 max_env_step=20000
    ding_lite -m rpc -c dizoo/classic_control/cartpole/config/cartpole_pg_rpc_config.py --nproc 3
    python -m torch.distributed.launch --nproc_per_node=2 -m ding_lite -c CONFIG --divide
    ding_lite -m eval --ckpt EXPERIMENT
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
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

    def run(self, args: argparse.Namespace) -> None:
        values = {key: getattr(args, option[2:].replace("-", "_")) for option, key in WORDS.items()}
        args.words = [*(f"{key}={value}" for key, value in values.items() if value is not None), *args.words]
        if args.mode != "eval":
            if args.ckpt is not None or args.episodes is not None:
                raise ConfigError(
                    "--ckpt (--load-path) and --episodes need -m eval; to start training from a checkpoint, set "
                    "policy.learn.learner.hook.load_ckpt_before_run=FILE."
                )
            if args.config is None:
                raise ConfigError("-c is missing: give the config file to train.")
            args.jobs, args.goes_on, args.together = None, False, False
            Train().run(args)
            return
        if args.ckpt is None:
            raise ConfigError("--ckpt is missing: give the checkpoint to evaluate.")
        if args.nproc > 1 or args.max_restarts or args.divide or args.submit or len(args.seeds or []) > 1:
            raise ConfigError(
                "a checkpoint is evaluated once, by one process: leave out --nproc, --max-restarts, --divide and "
                "--submit, and give one seed."
            )
        check_at_least(args, episodes=1)
        from ding_lite.cli.running import run  # noqa: PLC0415  (it loads torch)

        args.seed, args.resume = (args.seeds or [None])[0], None
        run(args)


class Sweep(Command):
    """Search for the best values of some keys, with Optuna.

    key=low..high is a range of numbers, with :log, :int or a step such as :0.1 after it; key=a,b,c is a choice; any
    other key=value is the same in all trials. A trial trains with each seed, and its score is the mean of their best
    evaluations. Trials that fall behind are ended early. The same command continues a sweep, and several machines may
    share one.
    """

    takes_words = True
    examples = """
    ding_lite sweep -c CONFIG policy.learn.learning_rate=1e-4..1e-2:log policy.learn.batch_size=32,64 max_env_step=20000
    ding_lite sweep -c CONFIG policy.nstep=1..5 --trials 30 --jobs 2 -s 0 1 2 max_env_step=20000
    ding_lite sweep -c CONFIG policy.nstep=1,3 policy.learn.batch_size=32,64 --sampler grid -o grid
    ding_lite sweep -c CONFIG policy.discount_factor=0.9..0.999 --trials 24 --jobs 8 --together max_env_step=20000
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
        parser.add_argument("--jobs", type=int, metavar="J", help="trials side by side (default: 1; 8 with --together)")
        add_together(parser)
        add_seeds(parser, "runs of each trial (default: the config's)")
        parser.add_argument(
            "--score", choices=("best", "last"), default="best", help="evaluation of a run that counts (default: best)"
        )
        parser.add_argument("--sampler", choices=("tpe", "random", "grid", "pbt"), default="tpe", help="default: tpe")
        parser.add_argument(
            "--rounds", type=int, default=10, metavar="R", help="of pbt: parts of a run that end with a comparison"
        )
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
        if args.together and (args.submit or args.nproc > 1 or args.max_restarts):
            raise ConfigError(
                "--together trains trials in this process: leave out --submit, --nproc and --max-restarts."
            )
        check_at_least(args, trials=1, jobs=1 + args.together, prune_after=0)
        args.jobs = args.jobs or (TRIALS_IN_STEP if args.together else 1)
        optuna = load_extra("optuna", "sweep")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module=r"optuna|ding_lite\.sweep")  # its remarks about each trial
        from ding_lite.cli.running import check_limits, split_words  # noqa: PLC0415  (it loads torch)
        from ding_lite.config import read_pair  # noqa: PLC0415
        from ding_lite.sweep.driver import Sweep  # noqa: PLC0415
        from ding_lite.sweep.plan import SweepPlan  # noqa: PLC0415
        from ding_lite.sweep.study import first_values, read_words, to_words  # noqa: PLC0415

        if read_launch() is not None:
            raise UserError("A sweep starts processes of its own: leave the launcher out.")
        space, words = read_words(args.words)
        limits, words = split_words(words)
        pair = read_pair(args.config)
        check_limits(pair, limits, [*words, *to_words(first_values(space))])
        starter = None
        if args.together:
            from ding_lite.cli.together import RunsInStep  # noqa: PLC0415

            starter = RunsInStep(args.jobs)
        plan = SweepPlan(args, pair, space, words, limits)
        if args.sampler == "pbt":
            from ding_lite.sweep.population import Population  # noqa: PLC0415

            raise SystemExit(Population(plan, starter).run())
        raise SystemExit(Sweep(plan, starter).run())
