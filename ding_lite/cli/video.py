"""Record videos of a trained policy; no screen is needed."""

from __future__ import annotations

import argparse
import contextlib
import os

from ding_lite.cli.options import add_playing, check_at_least
from ding_lite.utils.registry import ConfigError

FORMATS = ("mp4", "gif")
USAGE = "PATH [--episodes N] [-o DIR] [--format {mp4,gif}] [-s SEED] [--explore]"
EXAMPLES = """
ding_lite video EXPERIMENT
ding_lite video EXPERIMENT --episodes 3 --output videos --format gif
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_playing(parser)
    parser.add_argument("--episodes", type=int, default=1, metavar="N", help="episodes to record, 1 by default")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="directory of the videos; the run's video folder by default"
    )
    parser.add_argument("--format", choices=FORMATS, default="mp4", help="mp4 by default")


def run(args: argparse.Namespace) -> None:
    """Record episodes, and print the path of each video.

    Raises:
        UserError: a mistake in the arguments or in the run's directory, or the extra `video` is missing.
    """
    check_at_least(args, episodes=1)
    folder, suffix = os.path.splitext(args.output or "")
    if suffix[1:] in FORMATS:
        raise ConfigError(
            f"--output: expected a directory, got '{args.output}': write --output {folder} --format {suffix[1:]}."
        )
    from ding_lite.envs.rendering import EpisodeRecorder, import_moviepy  # noqa: PLC0415

    import_moviepy()
    from ding_lite.entry.agent import load, play_episodes  # noqa: PLC0415
    from ding_lite.results.run import find_checkpoint, find_exp_dir  # noqa: PLC0415

    agent = load(args.path)
    output = args.output or os.path.join(find_exp_dir(find_checkpoint(args.path)), "video")
    env = EpisodeRecorder(agent.make_env("rgb_array"), output, f".{args.format}")
    with contextlib.closing(env):
        episodes = play_episodes(agent, env, args.seed, not args.explore)
        for _, (value, length) in zip(range(args.episodes), episodes, strict=False):
            print(f"return {value:.2f}, {length} steps: {os.path.relpath(env.paths[-1])}", flush=True)
