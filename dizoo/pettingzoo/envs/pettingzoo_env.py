"""Environments of PettingZoo's parallel API, for policies of several agents; they need the extra `pettingzoo`.

Shapes: M agents, F features and A actions of the agent that has most of them, G features of the global state.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, flatdim, flatten

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, load_extra

FAMILIES = ("atari", "butterfly", "classic", "sisl")  # packages of PettingZoo itself


@ENV_REGISTRY.register("pettingzoo")
class PettingZooEnv(gymnasium.Env):
    """All agents of a game as one player: `agent_state` `[M, F]`, `global_state` `[G]`, `action_mask` `[M, A]`.

    What an agent observes is flattened, and padded with zeros if others see more. Its mask forbids the actions that it
    lacks, and those that the game forbids. An agent that is out of the game sees zeros, and may only choose action 0,
    which is not played. The global state is the game's, or all observations joined if it has none.

    Raises:
        ConfigError: the game is not installed, has no parallel API, or an agent's actions are not discrete.
    """

    config: ClassVar = dict(
        env_id=Key("mpe2/simple_spread_v3", "package and module of the game, such as sisl/pursuit_v4"),
        team_reward=Key("sum", "the team's reward: 'sum' or 'mean' of those of its agents", choices=("sum", "mean")),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        package, _, name = cfg_env.env_id.partition("/")
        what, path = f"env.env_id '{cfg_env.env_id}'", f"{package}.{name}"
        module = load_extra(f"pettingzoo.{path}" if package in FAMILIES else path, "pettingzoo", what)
        if not hasattr(module, "parallel_env"):
            raise ConfigError(f"{what}: expected a game with PettingZoo's parallel API, which this one does not have.")
        self._game = module.parallel_env(**cfg_env.kwargs)
        if hasattr(self._game, "aec_env"):
            drop_checks(self._game)
        self.metadata, self.render_mode = self._game.metadata, cfg_env.kwargs.get("render_mode")
        self._reward = np.sum if cfg_env.team_reward == "sum" else np.mean
        self._agents = self._game.possible_agents
        spaces = {agent: self._game.observation_space(agent) for agent in self._agents}
        self._seen = {agent: space["observation"] if _masked(space) else space for agent, space in spaces.items()}
        actions = [self._game.action_space(agent) for agent in self._agents]
        if not all(isinstance(each, Discrete) for each in actions):
            raise ConfigError(f"{what}: expected Discrete actions of every agent, got {actions}: see env.kwargs.")
        self._start = [int(each.start) for each in actions]
        self._options = [int(each.n) for each in actions]
        self._shape = (len(self._agents), max(map(flatdim, self._seen.values())))
        self._mask_shape = (len(self._agents), max(self._options))
        state = getattr(self._game, "state_space", None)
        self._has_state = isinstance(state, Box)
        size = flatdim(state) if isinstance(state, Box) else self._shape[0] * self._shape[1]
        self.observation_space = Dict(
            agent_state=Box(-np.inf, np.inf, self._shape, np.float32),
            global_state=Box(-np.inf, np.inf, (size,), np.float32),
            action_mask=MultiBinary(self._mask_shape),
        )
        self.action_space = MultiDiscrete([max(self._options)] * len(self._agents))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start a game."""
        super().reset(seed=seed)
        seen, _ = self._game.reset(seed=seed, options=options)
        return self._observe(seen), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Play one action of each agent that is in the game."""
        chosen = zip(self._agents, action, self._start, strict=True)
        playing = {agent: int(number) + start for agent, number, start in chosen if agent in self._game.agents}
        seen, rewards, _, truncations, _ = self._game.step(playing)
        reward = float(self._reward([rewards.get(agent, 0.0) for agent in self._agents]))
        over, truncated = not self._game.agents, any(truncations.values())
        return self._observe(seen), reward, over and not truncated, over and truncated, {}

    def render(self) -> Any:
        """Return what the game draws."""
        return self._game.render()

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def _observe(self, seen: dict[str, Any]) -> dict[str, np.ndarray]:
        states, mask = np.zeros(self._shape, np.float32), np.zeros(self._mask_shape, np.int8)
        mask[:, 0] = 1
        playing = self._game.agents or seen  # agents that leave are seen once more, which counts only at the end
        for row, (agent, num) in enumerate(zip(self._agents, self._options, strict=True)):
            if agent not in playing:
                continue
            obs, masked = seen[agent], isinstance(seen[agent], dict) and "action_mask" in seen[agent]
            mask[row, :num] = obs["action_mask"] if masked else 1
            vector: Any = flatten(self._seen[agent], obs["observation"] if masked else obs)
            states[row, : len(vector)] = vector
        state = np.ravel(self._game.state()).astype(np.float32) if self._has_state else states.ravel()
        return {"agent_state": states, "global_state": state, "action_mask": mask}


def drop_checks(game: Any) -> None:
    """Let a game that PettingZoo converted from its API of turns compute only what a parallel step returns.

    For each agent's turn, the conversion computes an observation and drops it, and two wrappers check the order of
    calls and the bounds of actions, which the conversion and our spaces ensure. Both take a third of a step of mpe2. A
    game with other wrappers, which may need the observations, stays as it is.
    """
    wrappers, turns = load_extra("pettingzoo.utils.wrappers", "pettingzoo"), game.aec_env
    while type(turns) in (wrappers.AssertOutOfBoundsWrapper, wrappers.OrderEnforcingWrapper):
        turns = turns.env
    if turns is turns.unwrapped:
        turns.last = partial(turns.last, observe=False)
        game.aec_env = turns


def _masked(space: gymnasium.Space[Any]) -> bool:
    return isinstance(space, Dict) and {"observation", "action_mask"} <= space.keys()
