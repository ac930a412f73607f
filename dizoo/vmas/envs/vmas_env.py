"""Scenarios of VMAS (Bettini et al. 2022, arXiv:2207.03530) as one tensor, for `env_manager.type='batched'`.

They need the extra `vmas`. Shapes: N environments, M agents, F features that an agent observes, D numbers of an action.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest, load_extra

Obs = dict[str, Tensor]
# Scenarios in which a restart of some environments changes what the others return: they share random numbers or state.
SHARING = (
    "asym_joint",
    "ball_passage",
    "discovery",
    "football",
    "het_mass",
    "road_traffic",
    "simple_reference",
    "wheel",
)


class VMASVectorEnv(VectorEnv[Obs, Tensor, Tensor]):
    """N environments of a scenario, whose agents are one player; `docs/vmas.md` says what they observe and earn.

    VMAS restarts one environment at a time, or all, each in about the time of a step. Here `reset` with a mask restarts
    all, and then puts the tensors `[N, ...]` of the environments that go on back in place.

    VMAS draws from torch's global generator, in whose place it puts one of its own that all its environments of a
    process share. Here each simulator has a generator of its own, and the global one does not change.

    Args:
        scenario: VMAS's name, such as 'balance'.
        num_envs: N.
        device: where the environments are.
        max_episode_steps: env steps after which an episode is truncated; 0: never.
        continuous_actions: actions `[N, M, D]` are forces; False: `[N, M]`, each a direction, or 0 for none.
        team_reward: the team's reward is the 'mean' of those of the agents, or their 'sum'.
        kwargs: arguments of the scenario, such as `n_agents`.

    Raises:
        ConfigError: the agents observe or can do different things, or observe no vectors.
    """

    render_mode = "rgb_array"

    def __init__(
        self,
        scenario: str,
        num_envs: int,
        device: torch.device | str = "cpu",
        max_episode_steps: int = 100,
        continuous_actions: bool = True,
        team_reward: str = "mean",
        **kwargs: Any,
    ) -> None:
        vmas = load_extra("vmas", "vmas", "env.type='vmas'")
        self._shared = load_extra("vmas.simulator.environment", "vmas").Environment.vmas_random_state
        self.num_envs, self.device = num_envs, torch.device(device)
        self._limit, self._mean = max_episode_steps, team_reward == "mean"
        self._seed(secrets.randbits(32))
        with self._random_numbers(), warnings.catch_warnings():
            warnings.filterwarnings("error", "Scenario kwargs")  # of unknown ones, which VMAS ignores
            self._env = vmas.make_env(
                scenario,
                num_envs=num_envs,
                device=self.device,
                continuous_actions=continuous_actions,
                clamp_actions=True,
                terminated_truncated=True,
                **kwargs,
            )
        self._set_spaces(scenario, continuous_actions)
        self.metadata = {
            "autoreset_mode": AutoresetMode.DISABLED,
            "max_episode_steps": max_episode_steps or None,
            "render_modes": [self.render_mode],
            "render_fps": round(1 / self._env.world.dt),
        }
        self.elapsed_steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.step(torch.zeros(self.action_space.shape or (), device=self.device))  # which sets further attributes
        self._obs: Obs = {}

    def _set_spaces(self, scenario: str, continuous_actions: bool) -> None:
        agents, actions = len(self._env.agents), self._env.action_space.spaces
        for what, spaces in (("observe", self._env.observation_space.spaces), ("can do", actions)):
            if any(space != spaces[0] for space in spaces) or spaces[0].shape is None:
                raise ConfigError(
                    f"env.env_id: the agents of '{scenario}' {what} {spaces}, expected equal arrays of numbers: choose "
                    "another scenario, or other env.kwargs."
                )
        (features,), one = self._env.observation_space[0].shape, actions[0]
        self.single_observation_space = Dict(
            agent_state=Box(-np.inf, np.inf, (agents, features), np.float32),
            global_state=Box(-np.inf, np.inf, (agents * features,), np.float32),
        )
        if continuous_actions:
            low, high = (np.tile(end, (agents, 1)) for end in (one.low, one.high))
            self.single_action_space = Box(low, high, dtype=np.float32)
        else:
            self.single_action_space = MultiDiscrete([int(one.n)] * agents)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @torch.no_grad()
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        """Begin new episodes, and return the observations of all environments and an empty info.

        Args:
            seed: seed of the random numbers of these and of all later episodes; None: they go on.
            options: `reset_mask`, bool `[N]`: the environments that begin anew; without it, all.
        """
        if seed is not None:
            self._seed(seed)
        mask_N = (options or {}).get("reset_mask")
        if mask_N is None:
            mask_N = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        if mask_N.shape != (self.num_envs,) or mask_N.dtype != torch.bool:
            raise ValueError(f"reset_mask: expected bool [{self.num_envs}], got {mask_N.dtype} {list(mask_N.shape)}.")
        before = {path: owner[key].clone() for path, owner, key in self._tensors() if self._is_of_each(owner[key])}
        with self._random_numbers():
            self._env.reset(return_observations=False)
        for path, owner, key in self._tensors():
            if path in before and self._is_of_each(owner[key]):
                owner[key] = _choose(mask_N, owner[key], before[path])
        with self._random_numbers():
            (seen,) = self._env.get_from_scenario(
                get_observations=True, get_rewards=False, get_infos=False, get_dones=False
            )
        obs = _observations(seen)
        self._obs = {key: _choose(mask_N, obs[key], old) for key, old in self._obs.items()} or obs
        self.elapsed_steps = self.elapsed_steps.masked_fill(mask_N, 0)
        return self._obs, {}

    @torch.no_grad()
    def step(self, actions: Tensor) -> tuple[Obs, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Take one action of each agent, `[N, M, D]` or `[N, M]`, in each environment."""
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions: expected {list(self.action_space.shape or ())}, got {list(actions.shape)}.")
        with self._random_numbers():
            seen, rewards, terminated_N, _, _ = self._env.step([*actions.view(*actions.shape[:2], -1).unbind(1)])
        reward_N = torch.stack(rewards).mean(0) if self._mean else torch.stack(rewards).sum(0)
        self._obs, self.elapsed_steps = _observations(seen), self.elapsed_steps + 1
        truncated_N = self.elapsed_steps >= (self._limit or torch.iinfo(torch.int64).max)
        return self._obs, reward_N, terminated_N, truncated_N, {}

    def render(self) -> tuple[np.ndarray, ...]:
        """Return an image of the first environment, `[H, W, 3]`, drawn by VMAS with pyglet, which needs OpenGL."""
        with self._random_numbers():
            return (np.asarray(self._env.render(mode=self.render_mode, env_index=0)),)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next steps depend on; with it, another simulator goes on with equal results to the bit."""
        return {
            "world": {path: owner[key].clone() for path, owner, key in self._tensors()},
            "obs": {key: leaf.clone() for key, leaf in self._obs.items()},
            "elapsed_steps": self.elapsed_steps.clone(),
            "generators": dict(self._generators),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        if len(state["elapsed_steps"]) != self.num_envs:
            raise ValueError(f"state: expected {self.num_envs} environments, got {len(state['elapsed_steps'])}.")
        owners = {path: (owner, key) for path, owner, key in self._tensors()}
        if other := sorted(state["world"].keys() - owners.keys()):
            raise ValueError(f"state: it is of another scenario, or version of VMAS, with the tensors {other}.")
        for path, tensor in state["world"].items():
            owner, key = owners[path]
            owner[key] = tensor.to(self.device, copy=True)
        self._obs = {key: leaf.to(self.device, copy=True) for key, leaf in state["obs"].items()}
        self.elapsed_steps = state["elapsed_steps"].to(self.device, copy=True)
        self._generators = {key: leaf.cpu() for key, leaf in state["generators"].items()}

    def _seed(self, seed: int) -> None:
        """Set the states of the generators: torch's of the CPU, and that of the device if it is another."""
        devices = {torch.device("cpu").type: torch.device("cpu"), self.device.type: self.device}
        self._generators = {
            key: torch.Generator(device).manual_seed(seed).get_state() for key, device in devices.items()
        }

    @contextmanager
    def _random_numbers(self) -> Iterator[None]:
        """Let VMAS draw from the generators of this simulator.

        `vmas_random_state` has those that VMAS puts in place of the global ones: torch's of the CPU, NumPy's and
        Python's. Of these the scenarios use torch's.
        """
        shared, gpu = self._shared[0], self.device.type == "cuda"
        self._shared[0] = self._generators["cpu"]
        if gpu:
            outside = torch.cuda.get_rng_state(self.device)
            torch.cuda.set_rng_state(self._generators["cuda"], self.device)
        try:
            yield
        finally:
            self._generators["cpu"], self._shared[0] = self._shared[0], shared
            if gpu:
                self._generators["cuda"] = torch.cuda.get_rng_state(self.device)
                torch.cuda.set_rng_state(outside, self.device)

    def _tensors(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield each tensor of the scenario and its world: a name, the dict or list that has it, and its key there."""
        seen: set[int] = set()
        todo: list[tuple[str, Any]] = [("", vars(self._env.scenario))]
        while todo:
            path, owner = todo.pop()
            items = list(owner.items() if isinstance(owner, dict) else enumerate(owner))
            for place, (key, value) in enumerate(items):
                name = f"{path}{key if isinstance(key, str) else place}"  # keys may be agents
                if isinstance(value, Tensor):
                    yield name, owner, key
                    continue
                inner = value if isinstance(value, dict | list) else getattr(value, "__dict__", None)
                if inner and not callable(value) and id(value) not in seen:
                    seen.add(id(value))
                    todo.append((f"{name}/", inner))

    def _is_of_each(self, tensor: Tensor) -> bool:
        return tensor.shape[:1] == (self.num_envs,)


def _choose(mask_N: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return the rows of `new` where the mask is true, else those of `old`."""
    return new.where(mask_N.view(-1, *[1] * (new.ndim - 1)), old)


def _observations(seen: list[Tensor]) -> Obs:
    """Return what the agents `[N, F]` observe as `agent_state` `[N, M, F]`, and joined as `global_state` `[N, M F]`."""
    state_NMF = torch.stack(seen, 1)
    return {"agent_state": state_NMF, "global_state": state_NMF.flatten(1)}


@ENV_REGISTRY.register("vmas")
class VMASEnv:
    """Scenarios of VMAS; `env_id` is VMAS's name, and `env.kwargs` are arguments of the scenario."""

    config: ClassVar = dict(
        env_id=Key("balance", "VMAS's name of the scenario, such as 'navigation' or 'transport'"),
        continuous_actions=Key(True, "an agent's action is a force; False: one of nine directions"),
        team_reward=Key("mean", "the team's reward: 'mean' or 'sum' of those of its agents", choices=("mean", "sum")),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        raise ConfigError("env.type='vmas' has no single environments: set env_manager.type to 'batched'.")

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: torch.device) -> VMASVectorEnv:
        """Return N environments on a device."""
        vmas = load_extra("vmas", "vmas", "env.type='vmas'")
        known = sorted((*vmas.scenarios, *vmas.debug_scenarios, *vmas.mpe_scenarios))
        if cfg_env.env_id not in known:
            raise ConfigError(f"env.env_id: VMAS knows no '{cfg_env.env_id}'.{closest(cfg_env.env_id, known)}")
        if cfg_env.env_id in SHARING:
            raise ConfigError(
                f"env.env_id: '{cfg_env.env_id}' cannot be restarted in some environments without changing the others: "
                "choose another scenario."
            )
        limit = 100 if cfg_env.max_episode_steps is None else cfg_env.max_episode_steps
        return VMASVectorEnv(
            cfg_env.env_id,
            num_envs,
            device,
            max_episode_steps=limit,
            continuous_actions=cfg_env.continuous_actions,
            team_reward=cfg_env.team_reward,
            **cfg_env.kwargs,
        )
