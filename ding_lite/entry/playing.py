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
    """Play one episode after the other, without end.

    Args:
        agent: the agent.
        env: an environment of the agent's `make_env`, also wrapped further.
        seed: seed of the environment, before the first episode.
        deterministic: see `Agent.act`.

    Yields:
        The return, the sum of unclipped rewards, and the length in env steps, of each episode.
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
