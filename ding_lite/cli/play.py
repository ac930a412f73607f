"""Watch a trained policy play, in a window."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from typing import Any

from ding_lite.cli.options import add_playing, check_at_least
from ding_lite.utils.registry import ConfigError

USAGE = "PATH [--episodes N] [-s SEED] [--explore]"
EXAMPLES = """
ding_lite play EXPERIMENT
ding_lite play EXPERIMENT --episodes 3 --explore
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_playing(parser)
    parser.add_argument("--episodes", type=int, metavar="N", help="episodes to play; until Ctrl-C by default")


def run(args: argparse.Namespace) -> None:
    """Play episodes in a window, and print the return of each.

    Raises:
        UserError: a mistake in the arguments or in the run's directory, or there is no screen.
    """
    check_at_least(args, episodes=1)
    from ding_lite.envs.rendering import has_screen  # noqa: PLC0415

    instead = f"use `ding_lite video {shlex.quote(args.path)}`"
    if not has_screen():
        raise ConfigError(f"There is no screen to open a window on: {instead}.")
    from ding_lite.entry.agent import load, play_episodes  # noqa: PLC0415

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
    except _pygame_errors() as error:
        raise ConfigError(f"No window can be opened ({error}): {instead}.") from error
    finally:
        env.close()


def _pygame_errors() -> Any:
    """Return the exception of pygame, which draws the windows of most environments, if it was imported."""
    pygame = sys.modules.get("pygame")
    return getattr(pygame, "error", ()) if pygame else ()
