"""Classic control as torch programs: thousands of environments are stepped as one tensor, on the CPU or on a GPU."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from ding_lite.envs.checks import find_id
from ding_lite.utils.registry import ConfigError

# Values of keys of `env` that are the only ones possible where all environments are one tensor.
FIXED: dict[str, Any] = {"reset_options": {}, "dynamic_seed": True, "wrappers": []}


class TorchVectorEnv(VectorEnv[Tensor, Tensor, Tensor]):
    """N environments of one of gymnasium's classes, with the same equations, whose states are one tensor `[S, N]`.

    An episode that ends is followed by the next one in the same step: `obs` `[N, D]` is then the first observation of
    the new episode. `info["final_obs"]` `[N, D]` is the observation before the reset, in every step and for all
    environments. Initial states are drawn for all environments in every step and used where an episode ended. Thus no
    method but `render` waits for the device, and a seed and the actions determine the results. Outputs are new tensors
    of the device, observations with the environments side by side in memory: strides `(1, N)`.

    A subclass has the equations: `_initial`, `_advance` and `_observe`.

    Attributes:
        original: gymnasium's class, which has the spaces and renders.
        time_limit: env steps after which gymnasium truncates an episode.
        fixed: further keys of `env` with the only value that is possible, see `FIXED`.
        elapsed_steps: env steps of the running episodes, `[N]`.

    Args:
        num_envs: N.
        device: where the environments are.
        dtype: of states, observations and rewards: float32 or float64.
        max_episode_steps: env steps after which an episode is truncated; None: `time_limit`; 0: never.
        kwargs: arguments of gymnasium's class.
    """

    original: ClassVar[Any]
    time_limit: ClassVar[int]
    fixed: ClassVar[Mapping[str, Any]] = {}
    render_mode = "rgb_array"

    def __init__(
        self,
        num_envs: int,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        max_episode_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.num_envs, self.device, self.dtype, self.kwargs = num_envs, torch.device(device), dtype, kwargs
        self.max_episode_steps = self.time_limit if max_episode_steps is None else max_episode_steps
        self._game: Any = self.original(**kwargs, render_mode=self.render_mode)
        self._game.reset(seed=0)  # sets the attributes that rendering reads
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "max_episode_steps": self.max_episode_steps or None,
            "render_modes": [self.render_mode],
            "render_fps": self.original.metadata["render_fps"],
        }
        self._set_spaces(self._game.observation_space.low, self._game.observation_space.high)
        self._generator = torch.Generator(self.device)
        self._generator.seed()
        self._state = self._initial()
        self.elapsed_steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    @classmethod
    def from_config(cls, cfg_env: EasyDict, num_envs: int, device: str | torch.device, **options: Any) -> Self:
        """Return the environments that a config describes.

        Args:
            cfg_env: the compiled `cfg.env`.
            num_envs: N.
            device: where they are.
            options: further arguments of the constructor.

        Raises:
            ConfigError: a key of `cfg.env` has a value that is not possible here.
        """
        spec, name = find_id(cfg_env.env_id), f"{cls.original.__module__}:{cls.original.__name__}"
        if spec.entry_point != name or spec.additional_wrappers:
            ids = sorted(one.id for one in gymnasium.registry.values() if one.entry_point == name)
            raise _refusal("env_id", f"'{spec.id}'", " or ".join(ids))
        for key, value in (FIXED | dict(cls.fixed)).items():
            if cfg_env[key] != value:
                raise _refusal(key, cfg_env[key], value)
        kwargs = {**spec.kwargs, **cfg_env.kwargs}
        known = inspect.signature(cls.original).parameters.keys() - {"render_mode"}
        if kwargs.keys() - known:
            raise _refusal("kwargs", kwargs, f"arguments among {sorted(known)}")
        limit = spec.max_episode_steps if cfg_env.max_episode_steps is None else cfg_env.max_episode_steps
        return cls(num_envs, device, max_episode_steps=limit or 0, **kwargs, **options)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Begin new episodes, and return the observations of all environments and an empty info.

        Args:
            seed: seed of the initial states of these and of all later episodes; None: the random numbers go on.
            options: `reset_mask`, bool `[N]`: the environments that begin anew; without it, all.
        """
        if seed is not None:
            self._generator.manual_seed(seed)
        mask = (options or {}).get("reset_mask")
        if mask is None:
            mask = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        if mask.shape != (self.num_envs,) or mask.dtype != torch.bool:
            raise ValueError(f"reset_mask: expected bool [{self.num_envs}], got {mask.dtype} {list(mask.shape)}.")
        self._begin(mask, self._state, self.elapsed_steps)
        return self._observe(self._state), {}

    @torch.no_grad()
    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Take one action `[N]` or `[N, D]` in each environment.

        Returns:
            obs `[N, D]`, reward `[N]`, terminated and truncated, bool `[N]`, and info with `final_obs` `[N, D]`.
        """
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions: expected {list(self.action_space.shape or ())}, got {list(actions.shape)}.")
        state, reward, terminated = self._advance(self._state, actions.to(self.dtype))
        elapsed = self.elapsed_steps + 1
        truncated = elapsed >= (self.max_episode_steps or sys.maxsize)
        self._begin(terminated | truncated, state, elapsed)
        return self._observe(self._state), reward, terminated, truncated, {"final_obs": self._observe(state)}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the next steps depend on; with it, another environment goes on with equal results to the bit."""
        return {
            "state": self._state.clone(),
            "elapsed_steps": self.elapsed_steps.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state_dict` returned; the next observations are those of the next step or reset."""
        if state["state"].shape != self._state.shape:
            raise ValueError(f"state: expected {list(self._state.shape)}, got {list(state['state'].shape)}.")
        self._state = state["state"].to(self._state, copy=True)
        self.elapsed_steps = state["elapsed_steps"].to(self.elapsed_steps, copy=True)
        self._generator.set_state(state["generator"].cpu())

    def render(self) -> tuple[np.ndarray, ...]:
        """Return an image of the first environment, drawn by gymnasium's class."""
        self._game.state = self._state[:, 0].double().cpu().numpy()
        return (self._game.render(),)

    def close_extras(self, **kwargs: Any) -> None:
        self._game.close()

    def _initial(self) -> Tensor:
        """Draw an initial state for every environment, `[S, N]`."""
        raise NotImplementedError

    def _advance(self, state: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next states `[S, N]`, rewards `[N]` and which episodes are terminated, bool `[N]`."""
        raise NotImplementedError

    def _observe(self, state: Tensor) -> Tensor:
        """Return the observations of states, `[N, D]`, in new memory."""
        raise NotImplementedError

    def _uniform(self, low: float, high: float, rows: int = 1) -> Tensor:
        """Draw numbers between two bounds, `[rows, N]`."""
        numbers = torch.empty(rows, self.num_envs, dtype=self.dtype, device=self.device)
        return numbers.uniform_(low, high, generator=self._generator)

    def _begin(self, mask: Tensor, state: Tensor, elapsed: Tensor) -> None:
        """Set states and step counts: initial ones where the mask is true, else those given."""
        self._state = torch.where(mask, self._initial(), state)
        self.elapsed_steps = elapsed.masked_fill(mask, 0)

    def _set_spaces(self, low: np.ndarray, high: np.ndarray) -> None:
        """Set the spaces, given the bounds of an observation."""
        dtype: Any = {torch.float32: np.float32, torch.float64: np.float64}[self.dtype]
        self.single_observation_space = Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
        self.single_action_space = self._game.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)


def _refusal(key: str, value: Any, possible: Any) -> ConfigError:
    return ConfigError(
        f"env.{key}={value}: environments that are one tensor only take {possible}: set that, or env_manager.type to "
        "'base' or 'subprocess'."
    )
