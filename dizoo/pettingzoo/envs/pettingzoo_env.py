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

from ding_lite.envs import EnvError
from ding_lite.envs.masks import find_mask_space, read_mask
from ding_lite.envs.returned import fit
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, load_extra
from ding_lite.utils.tree import MASK

FAMILIES = ("atari", "butterfly", "classic", "sisl")  # packages of PettingZoo itself


@ENV_REGISTRY.register("pettingzoo")
class PettingZooEnv(gymnasium.Env):
    """All agents of a game as one player: `agent_state` `[M, F]`, `global_state` `[G]`, `action_mask` `[M, A]`.

    What an agent observes is flattened, and padded with zeros if others see more. Its mask forbids the actions that it
    lacks, and those that the game forbids by an `action_mask` in the agent's observation or `info`. An agent that is
    out of the game sees zeros, and may only choose action 0, which is not played. The global state is the game's, or
    all observations joined if it has none.

    Attributes:
        summary_note: where the game's masks are found, for the summary of a run; empty if it has none.

    Raises:
        ConfigError: the game is not installed, has no parallel API, or an agent's actions are not discrete.
        EnvError: by `reset` and `step`, if what an agent observes is not in its space, or its mask does not fit.
    """

    config: ClassVar = dict(
        env_id=Key("mpe2/simple_spread_v3", "package and module of the game, such as sisl/pursuit_v5"),
        team_reward=Key("sum", "the team's reward: 'sum' or 'mean' of those of its agents", choices=("sum", "mean")),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        package, _, name = cfg_env.env_id.partition("/")
        what, path = f"env.env_id '{cfg_env.env_id}'", f"{package}.{name}"
        if not package or not name:
            raise ConfigError(f"{what}: expected package and module of a game, such as sisl/pursuit_v5.")
        module = load_extra(f"pettingzoo.{path}" if package in FAMILIES else path, "pettingzoo", what)
        if not hasattr(module, "parallel_env"):
            raise ConfigError(f"{what}: expected a game with PettingZoo's parallel API, which this one does not have.")
        self._name, self.summary_note = f"Environment '{cfg_env.env_id}'", ""
        self._game = module.parallel_env(**cfg_env.kwargs)
        if hasattr(self._game, "aec_env"):
            drop_checks(self._game)
        self.metadata, self.render_mode = self._game.metadata, cfg_env.kwargs.get("render_mode")
        self._reward = np.sum if cfg_env.team_reward == "sum" else np.mean
        self._agents = self._game.possible_agents
        spaces = {agent: self._game.observation_space(agent) for agent in self._agents}
        self._seen = {agent: _without_mask(space) for agent, space in spaces.items()}
        actions = [self._game.action_space(agent) for agent in self._agents]
        if not all(isinstance(each, Discrete) for each in actions):
            raise ConfigError(f"{what}: expected Discrete actions of every agent, got {actions}: see env.kwargs.")
        self._start = [int(each.start) for each in actions]
        self._options = [int(each.n) for each in actions]
        self._shape = (len(self._agents), max(map(flatdim, self._seen.values())))
        self._mask_shape = (len(self._agents), max(self._options))
        state = getattr(self._game, "state_space", None)
        self._state = state if isinstance(state, Box) else None
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
        seen, infos = self._game.reset(seed=seed, options=options)
        return self._observe(seen, infos), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Play one action of each agent that is in the game."""
        chosen = zip(self._agents, action, self._start, strict=True)
        playing = {agent: int(number) + start for agent, number, start in chosen if agent in self._game.agents}
        seen, rewards, _, truncations, infos = self._game.step(playing)
        reward = float(self._reward([rewards.get(agent, 0.0) for agent in self._agents]))
        over, truncated = not self._game.agents, any(truncations.values())
        return self._observe(seen, infos), reward, over and not truncated, over and truncated, {}

    def render(self) -> Any:
        """Return what the game draws."""
        return self._game.render()

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def _observe(self, seen: dict[str, Any], infos: dict[str, Any]) -> dict[str, np.ndarray]:
        states, mask = np.zeros(self._shape, np.float32), np.zeros(self._mask_shape, np.int8)
        mask[:, 0] = 1
        playing = self._game.agents or seen  # agents that leave are seen once more, which counts only at the end
        for row, (agent, num) in enumerate(zip(self._agents, self._options, strict=True)):
            if agent not in playing:
                continue
            obs, found = self._split(agent, seen.get(agent), infos.get(agent))
            mask[row, :num] = 1 if found is None else self._read_mask(agent, found, num)
            obs = fit(obs, self._seen[agent], f"{self._name}: observation of '{agent}'")
            vector: Any = flatten(self._seen[agent], obs)
            states[row, : len(vector)] = vector
        state = states
        if self._state is not None:
            state = fit(self._game.state(), self._state, f"{self._name}: state()")
        return {"agent_state": states, "global_state": state.ravel().astype(np.float32), "action_mask": mask}

    def _split(self, agent: str, obs: Any, info: Any) -> tuple[Any, Any]:
        """Return what an agent observes without its mask, and the mask; None if it has none."""
        if isinstance(obs, dict) and MASK in obs:
            rest = {key: part for key, part in obs.items() if key != MASK}
            alone = len(rest) == 1 and not isinstance(self._seen[agent], Dict)
            self.summary_note = f"{MASK} of the agents' observations is obeyed."
            return next(iter(rest.values())) if alone else rest, obs[MASK]
        if not info or MASK not in info:
            return obs, None
        self.summary_note = f"info['{MASK}'] of the agents is obeyed."
        return obs, info[MASK]

    def _read_mask(self, agent: str, mask: Any, options: int) -> np.ndarray:
        found = read_mask(mask, f"{self._name}: '{agent}' has")
        if found.shape != (options,):
            raise EnvError(
                f"{self._name}: '{agent}' has an {MASK} of shape {list(found.shape)}, expected [{options}], one number "
                "for each action."
            )
        return found


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


def _without_mask(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """Return the space of what is observed beside the mask: the only other part, or a Dict of the others."""
    if find_mask_space(space) is None:
        return space
    parts = {key: part for key, part in space.items() if key != MASK}  # type: ignore[attr-defined]  # it is a Dict
    return next(iter(parts.values())) if len(parts) == 1 else Dict(parts)
