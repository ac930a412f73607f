"""The commands that use a trained policy."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shlex
import sys

from ding_lite.cli.parsers import Command, add_checkpoint, add_playing, check_at_least
from ding_lite.utils.registry import ConfigError

FORMATS = ("mp4", "gif")


class Eval(Command):
    """Evaluate a checkpoint over whole episodes.

    The config is that of the run; words key=value change it.
    """

    takes_words = True
    examples = """
    ding_lite eval EXPERIMENT
    ding_lite eval EXPERIMENT/ckpt/ckpt_last.pth.tar --episodes 20 -s 1
    ding_lite eval EXPERIMENT env.replay_path=videos
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_checkpoint(parser)
        parser.add_argument("--episodes", type=int, metavar="N", help="episodes, instead of env.n_evaluator_episode")
        parser.add_argument("-s", "--seed", type=int, help="used instead of the config's seed")

    def run(self, args: argparse.Namespace) -> None:
        from ding_lite.cli.running import evaluate  # noqa: PLC0415  (it loads torch)

        evaluate(args, args.path, "give the run's directory, or a checkpoint in its ckpt folder")


class Play(Command):
    """Watch a trained policy play, in a window."""

    examples = """
    ding_lite play EXPERIMENT
    ding_lite play EXPERIMENT --episodes 3 --explore
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_playing(parser)
        parser.add_argument("--episodes", type=int, metavar="N", help="episodes to play; until Ctrl-C by default")

    def run(self, args: argparse.Namespace) -> None:
        check_at_least(args, episodes=1)
        from ding_lite.trained.rendering import has_screen  # noqa: PLC0415

        instead = f"use `ding_lite video {shlex.quote(args.path)}`"
        if not has_screen():
            raise ConfigError(f"There is no screen to open a window on: {instead}.")
        from ding_lite.trained.agent import load, play_episodes  # noqa: PLC0415

        agent = load(args.path)
        count = math.inf if args.episodes is None else args.episodes
        env = agent.make_env("human")
        try:
            for episode, (value, length) in enumerate(play_episodes(agent, env, args.seed, not args.explore), 1):
                print(f"episode {episode}: return {value:.2f}, {length} steps", flush=True)
                if episode >= count:
                    break
        except KeyboardInterrupt:
            print("stopped")
        except getattr(sys.modules.get("pygame"), "error", ()) as error:  # pygame draws the windows of most of them
            raise ConfigError(f"No window can be opened ({error}): {instead}.") from error
        finally:
            env.close()


class Video(Command):
    """Record videos of a trained policy; no screen is needed."""

    examples = """
    ding_lite video EXPERIMENT
    ding_lite video EXPERIMENT --episodes 3 --output videos --format gif
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_playing(parser)
        parser.add_argument("--episodes", type=int, default=1, metavar="N", help="episodes to record, 1 by default")
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="directory of the videos; the run's video folder by default"
        )
        parser.add_argument("--format", choices=FORMATS, default="mp4", help="mp4 by default")

    def run(self, args: argparse.Namespace) -> None:
        check_at_least(args, episodes=1)
        folder, suffix = os.path.splitext(args.output or "")
        if suffix[1:] in FORMATS:
            raise ConfigError(
                f"--output: expected a directory, got '{args.output}': write --output {folder} --format {suffix[1:]}."
            )
        from ding_lite.trained.rendering import EpisodeRecorder, import_moviepy  # noqa: PLC0415

        import_moviepy()
        from ding_lite.results.run import find_checkpoint, find_exp_dir  # noqa: PLC0415
        from ding_lite.trained.agent import load, play_episodes  # noqa: PLC0415

        agent = load(args.path)
        output = args.output or os.path.join(find_exp_dir(find_checkpoint(args.path)), "video")
        env = EpisodeRecorder(agent.make_env("rgb_array"), output, f".{args.format}")
        with contextlib.closing(env):
            episodes = play_episodes(agent, env, args.seed, not args.explore)
            for _, (value, length) in zip(range(args.episodes), episodes, strict=False):
                print(f"return {value:.2f}, {length} steps: {os.path.relpath(env.paths[-1])}", flush=True)


class Export(Command):
    """Export a trained policy for programs without ding_lite.

    The file contains a module that maps observations to actions, without exploration; no environment is needed.
    """

    examples = """
    ding_lite export EXPERIMENT -o policy.pt2
    ding_lite export EXPERIMENT/ckpt/ckpt_last.pth.tar -o policy.onnx
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_checkpoint(parser)
        parser.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="ends with .pt2 (torch.export) or .onnx (extra onnx)"
        )

    def run(self, args: argparse.Namespace) -> None:
        from ding_lite.trained.agent import load  # noqa: PLC0415  (it loads torch)

        load(args.path).export(args.output)
        print(f"wrote {args.output}")


class Convert(Command):
    """Convert a pickled recording of DI-engine's into a data set.

    The file may hold transitions, episodes or trajectories of NumPy arrays or torch tensors. No code in it is run, and
    a file with anything else is refused.
    """

    examples = """
    ding_lite convert expert_data.pkl expert_data.hdf5
    ding_lite convert expert_data.pkl expert_data.npz
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("path", metavar="FILE", help="the pickle file")
        parser.add_argument(
            "output", metavar="OUTPUT", help="ends with .hdf5 or .npz; or a new directory for .npy files"
        )

    def run(self, args: argparse.Namespace) -> None:
        from ding_lite.offline.files import DatasetError, check_target, count_rows, write_columns  # noqa: PLC0415
        from ding_lite.offline.pickled import read_pickle  # noqa: PLC0415  (they load torch)

        if check_target(args.output) == "minari":
            raise DatasetError(
                f"A pickle becomes no Minari data set: give a file such as data.hdf5, not {args.output}."
            )
        if os.path.exists(args.output):
            raise DatasetError(f"'{args.output}' exists already: remove it, or give another name.")
        columns = read_pickle(args.path)
        write_columns(args.output, columns, {"source": os.path.basename(args.path)})
        print(f"{count_rows(columns):,} transitions with {', '.join(columns)}: {args.output}")
