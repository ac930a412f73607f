"""Plays episodes of one environment with an agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import gymnasium

from ding_lite.envs.wrappers import TRUE_REWARD

if TYPE_CHECKING:
    from ding_lite.entry.agent import Agent


def play_episodes(
    agent: Agent, env: gymnasium.Env, seed: int | None = None, deterministic: bool = True
) -> Iterator[tuple[float, int]]:
    """Play one episode after another, endlessly.

    Args:
        agent: the agent.
        env: an environment from the agent's `make_env`, possibly wrapped further.
        seed: seed of the environment, before the first episode.
        deterministic: see `Agent.act`.

    Yields:
        Each episode's return (the sum of unclipped rewards) and its length in env steps.
    """
    while True:
        obs, _ = env.reset(seed=seed)
        seed = None
        agent.reset()
        total, length, ended = 0.0, 0, False
        while not ended:
            obs, reward, terminated, truncated, info = env.step(agent.act(obs, deterministic))
            total += float(info.get(TRUE_REWARD, reward))
            length += 1
            ended = terminated or truncated
        yield total, length
