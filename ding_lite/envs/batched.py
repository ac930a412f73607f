"""Environments that step as one tensor: simulators with thousands of environments on one device.

`env_manager.type='batched'` plays a `gymnasium.vector.VectorEnv` whose arrays are torch's, NumPy's or JAX's. It is made
by `gymnasium.make_vec(env_id, vectorization_mode="vector_entry_point")`, or by the class method
`make_batched(cfg_env, num_envs, device)` of a registered class. Nothing in a step waits for the device.

The result of `create_batched` obeys the contract of `vector_env`, with these differences:

* Observations, rewards, flags and actions are tensors on `device`. They may share memory with the simulator's arrays,
  so they hold until the next step.
* `info["final_obs"]` is `[N, ...]` and there in every step: where an episode ended, its last observation. Elsewhere it
  has no meaning. `info["episode_info"]` is `[N, I]`, likewise.
* If the simulator spends a step on each reset (NEXT_STEP), `info["resets"]`, bool `[N]`, says where this step did.
  `final_obs` is there the observation before, and `episode_length` 0.
* Whether numbers are finite is checked once a collect, see `BatchedVectorEnv.check_block`.
* The running episodes are restored if the simulator has the methods `state_dict` and `load_state_dict`. Its state is a
  nested dict of tensors, arrays and numbers.

Shapes: N environments, I keys of `env.info_keys`, T steps of a collect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from ding_lite.envs.actions import ActionUnits, random_actions, scale
from ding_lite.envs.builders import image_layout
from ding_lite.envs.checks import attempt, find_id
from ding_lite.envs.keys import ENV_DEFAULTS
from ding_lite.envs.returned import EnvError
from ding_lite.envs.spaces import EnvSpec, observation_side
from ding_lite.envs.wrappers import TRUE_REWARD
from ding_lite.utils.checkpoint.file import to_tensors
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, UserError
from ding_lite.utils.tree import dotted_items, tree_leaves, tree_map

NUM_ENVS = 2  # environments in a trial, see `check_batched`
NO_FINAL_OBS = (
    "the simulator does not return the last observations of ended episodes, info['final_obs']: the ones before stand "
    "for them, also where an episode is truncated and its value is bootstrapped"
)
RESETS = (
    "the simulator spends a step on each reset: such a step repeats the last one of its episode. ppo, a2c and pqn "
    "leave it out; for other policies it counts twice"
)


class BatchedVectorEnv(VectorWrapper):
    """Adds true episode totals, final observations and scaled actions to a simulator, all as tensors.

    Args:
        env: the simulator, in any mode of autoreset. If that is DISABLED, its `reset` has to take
            `options["reset_mask"]`, bool `[N]`.
        device: where the tensors are.
        name: the environment's name in messages.
        info_keys: I keys of the simulator's infos whose values at the ends of episodes are reported.
        clip_rewards: whether `step` returns the signs of rewards; totals always sum the true rewards.
        act_scale: whether actions -1..1 are mapped to the bounds of a Box.
        image_layout: as `env.image_layout`. Observations that networks do not accept are converted in the memory of the
            host, as `PolicyObservations` says.
        random_elapsed_steps: whether `reset` with a seed lets episodes begin at random steps before their time limit.
            The simulator has the attribute `elapsed_steps`, integers `[N]`, then.

    Attributes:
        note: a message for the user about this conversion; empty if none is necessary.
        has_final_obs: whether the last observations of ended episodes are known; None before the first step.
    """

    frame_stack = 0

    def __init__(
        self,
        env: VectorEnv,
        device: torch.device,
        name: str,
        info_keys: Sequence[str] = (),
        clip_rewards: bool = False,
        act_scale: bool = True,
        image_layout: str = "",
        random_elapsed_steps: bool = False,
    ) -> None:
        super().__init__(env)
        self.device, self.info_keys, self.name, self._clip_rewards = device, tuple(info_keys), name, clip_rewards
        mode = env.metadata.get("autoreset_mode")
        self._restarts, self._skips = mode == AutoresetMode.DISABLED, mode == AutoresetMode.NEXT_STEP
        units = ActionUnits(env.single_action_space, act_scale)
        self.single_action_space = units.space
        self.action_space = batch_space(units.space, env.num_envs)
        self._units = _converter(units, device)
        raw = env.single_observation_space
        space, self._convert, self.note = observation_side(raw, image_layout, env.single_action_space)
        self._converts, self.single_observation_space = space != raw, space
        self._advances = random_elapsed_steps
        self.observation_space = batch_space(space, env.num_envs) if self._converts else env.observation_space
        self._give: Callable[[Tensor], Any] = lambda action: action
        self.has_final_obs: bool | None = True if self._restarts or self._skips else None
        self._obs: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment; of several seeds, the simulator gets the first one."""
        seed = seed if seed is None or isinstance(seed, int) else int(seed[0])
        obs, info = self.env.reset(seed=seed, options=options)
        self._give = _giver(next(tree_leaves(obs)))
        if self._advances and seed is not None:
            self._advance(self.env.unwrapped, torch.Generator().manual_seed(seed))
        self._obs = self._observe(obs)
        self._return_N = torch.zeros(self.num_envs, dtype=torch.float64, device=self.device)
        self._length_N = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._ended_N = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return self._obs, info

    def step(self, actions: Any) -> tuple[Any, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Take one step in every environment, with actions `[N, ...]`, tensors on any device."""
        actions = tree_map(self._give, self._to_env(tree_map(self._read, actions)))
        keeps = self.has_final_obs and not self._skips
        before = self._obs if keeps else tree_map(torch.clone, self._obs)  # the step may overwrite it
        raw_obs, raw_reward, terminated, truncated, raw_info = self.env.step(actions)
        obs = self._observe(raw_obs)
        reward_N, terminated_N, truncated_N = map(self._read, (raw_reward, terminated, truncated))
        ended_N = terminated_N | truncated_N
        resets_N, self._ended_N = self._ended_N, ended_N
        self._return_N = self._return_N + reward_N
        self._length_N = self._length_N + (~resets_N if self._skips else 1)
        info = {TRUE_REWARD: reward_N, "episode_return": self._return_N, "episode_length": self._length_N}
        if self._skips:
            info |= {"resets": resets_N, "final_obs": tree_map(partial(_select, resets_N), before, obs)}
        elif self._restarts:
            info["final_obs"] = tree_map(torch.clone, obs)
        else:
            info["final_obs"] = self._final_obs(raw_info, before)
        if self.info_keys:
            values = raw_info.get("final_info", raw_info)
            nan = reward_N.new_full((self.num_envs,), torch.nan, dtype=torch.float64)
            numbers = [self._read(values[key]).double() if key in values else nan for key in self.info_keys]
            info["episode_info"] = torch.stack(numbers, 1)
        self._return_N = self._return_N.masked_fill(ended_N, 0.0)
        self._length_N = self._length_N.masked_fill(ended_N, 0)
        if self._restarts and (self.device.type != "cpu" or ended_N.any()):  # asking another device would be waiting
            raw_obs, _ = self.env.reset(options={"reset_mask": self._give(ended_N)})
            obs = self._observe(raw_obs)
        self._obs = obs
        return obs, (reward_N.sign() if self._clip_rewards else reward_N).float(), terminated_N, truncated_N, info

    def _advance(self, env: Any, generator: torch.Generator) -> None:
        """Let the running episodes of a simulator be at random steps before their time limit."""
        elapsed_N = torch.randint(env.metadata["max_episode_steps"], (self.num_envs,), generator=generator)
        dtype = self._read(env.elapsed_steps).dtype
        env.elapsed_steps = self._give(self._read(elapsed_N.to(dtype)))

    def _read(self, leaf: Any) -> Tensor:
        """Return an array as a tensor on the device, without a copy if it is there already."""
        if not isinstance(leaf, Tensor):
            leaf = torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else from_dlpack(leaf)
        return leaf.to(self.device, non_blocking=True)

    def _observe(self, raw: Any) -> Any:
        """Return a simulator's observations as the policy sees them."""
        obs = tree_map(self._read, raw)
        return tree_map(self._read, self._convert(tree_map(_to_numpy, obs))) if self._converts else obs

    def _final_obs(self, info: dict[str, Any], before: Any) -> Any:
        """Return a copy of the last observations of ended episodes, or the ones before if the info has none."""
        final = info.get("final_obs")
        self.has_final_obs = final is not None
        if final is None:
            return before
        return tree_map(torch.clone, self._observe(final))

    def check_block(self, block: dict[str, Any]) -> None:
        """Check once a collect the lengths of episodes, and the numbers of a rollout block; this waits for the device.

        Raises:
            EnvError: an observation or a reward is NaN or infinite; it names the environment, the key and the step. Or
                an episode is longer than the simulator's limit.
        """
        own: dict[str, Any] = {key: block[key] for key in ("obs", "reward", "last_obs", "final_obs") if key in block}
        leaves = {key: leaf for key, leaf in dotted_items(own) if leaf.is_floating_point()}
        whole = torch.stack([leaf.isfinite().all() for leaf in leaves.values()] + [self._length_N.max()])
        *finite, longest = whole.tolist()
        limit = self.env.metadata.get("max_episode_steps") or longest
        if longest > limit:
            raise EnvError(
                f"Environment '{self.name}': a running episode has {longest} env steps, but metadata"
                f"['max_episode_steps'] is {limit}: `terminated` or `truncated` has to be true where one ends."
            )
        for (key, leaf), good in zip(leaves.items(), finite, strict=True):
            if good:
                continue
            first = (~leaf.isfinite()).nonzero()[0].tolist()
            step, n = (first[0], first[1]) if key.startswith(("obs", "reward")) else (len(block["reward"]), first[0])
            if key.startswith("final_obs"):
                step, n = divmod(int(block["final_index"][first[0]]), self.num_envs)
            raise EnvError(
                f"Environment '{self.name}': {key} of environment {n} is {leaf[tuple(first)].item()} in step {step} of "
                "the collect, expected finite numbers."
            )

    def _to_env(self, action: Any) -> Any:
        """Return a policy's actions in the units of the simulator."""
        if isinstance(self._units, dict):
            return {key: convert(action[key]) for key, convert in self._units.items()}
        return self._units(action)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the simulator, which has to have gymnasium's method `set_attr`."""
        if not hasattr(self.env, "set_attr"):
            raise UserError(f"set_attr: the simulator {type(self.env.unwrapped).__name__} has no such method.")
        self.env.set_attr(name, values)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the simulator and of the totals, in the form of `RestorableVectorEnv.state_dict`.

        Other ranks cannot continue the episodes, because the simulator's state is that of all environments together.
        """
        nothing = np.zeros(self.num_envs, np.int64)
        saves = hasattr(self.env, "state_dict") and not self._skips  # the row to repeat would be missing
        own = {"engine": self.env.state_dict()} if saves else {}  # type: ignore[attr-defined]
        return own | {
            "seed": nothing,
            "episode": nothing,
            "length": self._length_N.cpu().numpy(),
            "return": self._return_N.cpu().numpy(),
            "obs": tree_map(lambda leaf: leaf.cpu().clone().numpy(), self._obs),
            "actions": [np.empty(0, np.int64)] * self.num_envs,
            "attributes": {},
            "changes": [],
            "draws": [self.action_space.np_random.bit_generator.state],
        }

    def load_state_dict(self, state: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray]:
        """Restore a state, or start new episodes if it has none of the simulator, see `RestorableVectorEnv`."""
        if len(state["seed"]) != self.num_envs:
            raise ValueError(
                f"The checkpoint holds {len(state['seed'])} collecting environments of this rank, but the config says "
                f"env.collector_env_num={self.num_envs}: set it to {len(state['seed'])}."
            )
        self.action_space.np_random.bit_generator.state = state["draws"][0]
        restored = "engine" in state and hasattr(self.env, "load_state_dict")
        if restored:
            self.env.load_state_dict(to_tensors(state["engine"]))  # type: ignore[attr-defined]
            self._obs = tree_map(lambda leaf: torch.as_tensor(leaf, device=self.device), state["obs"])
            self._return_N, self._length_N = (
                torch.as_tensor(state[key], device=self.device) for key in ("return", "length")
            )
        else:
            self.reset()
        return self._obs, self._length_N.cpu().numpy(), np.full(self.num_envs, restored)


class HostVectorEnv(VectorWrapper):
    """A `BatchedVectorEnv` for those who play with NumPy's arrays, as an engine of an `EpisodeMonitor`."""

    env: BatchedVectorEnv

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        options = {key: torch.as_tensor(value, device=self.env.device) for key, value in (options or {}).items()}
        obs, _ = self.env.reset(seed=seed, options=options or None)
        return tree_map(_to_numpy, obs), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, *rest, info = self.env.step(tree_map(torch.as_tensor, actions))
        numbers: Any = info.get("episode_info")
        own: dict[str, Any] = {TRUE_REWARD: _to_numpy(info[TRUE_REWARD])}
        own["final_info"] = {key: numbers[:, i].cpu().numpy() for i, key in enumerate(self.env.info_keys)}
        reward, terminated, truncated = map(_to_numpy, rest)
        final = tree_map(_to_numpy, info["final_obs"])
        if isinstance(final, dict):  # gymnasium's form: an array of dicts
            rows = np.empty(self.num_envs, object)
            for n in np.flatnonzero(terminated | truncated):
                rows[n] = tree_map(lambda leaf, n=n: leaf[n], final)
            final = rows
        return tree_map(_to_numpy, obs), reward, terminated, truncated, own | {"final_obs": final}


def create_batched(
    builder: Any, cfg_env: EasyDict, num_envs: int, device: torch.device | str = "cpu", training: bool = False
) -> BatchedVectorEnv:
    """Build the simulator that `cfg.env` describes, with N environments.

    Args:
        builder: the registered class, see `find_batched`.
        cfg_env: the compiled `cfg.env`.
        num_envs: N.
        device: where its tensors are.
        training: whether `clip_rewards` applies, and actions are in a policy's units.

    Raises:
        ConfigError: the simulator cannot be made, or is none, or a key of `cfg.env` has no meaning for it.
    """
    name, device = cfg_env.env_id or cfg_env.type, torch.device(device)
    env = attempt(lambda: find_batched(builder, cfg_env)(cfg_env, num_envs, device), name, "be built by make_batched")
    if not isinstance(env, VectorEnv):
        raise _violation(name, f"make_batched returned a {type(env).__name__}, expected a gymnasium.vector.VectorEnv")
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise _violation(name, f"its metadata['autoreset_mode'] is {mode}, expected one of gymnasium's AutoresetMode")
    if env.num_envs != num_envs:
        raise _violation(name, f"it has {env.num_envs} environments, expected {num_envs}")
    limit, own = cfg_env.max_episode_steps, env.metadata.get("max_episode_steps") or 0
    if limit is not None and limit != own:
        raise ConfigError(
            f"env.max_episode_steps={limit}: the simulator '{name}' truncates after {own} env steps (0: never), as its "
            "metadata says, and does not read this key: leave it out."
        )
    advances = cfg_env.manager.get("random_elapsed_steps", False)
    if advances and not (own and hasattr(env.unwrapped, "elapsed_steps")):
        raise ConfigError(
            f"env_manager.random_elapsed_steps=True: the simulator '{name}' has no attribute elapsed_steps, or no "
            "limit metadata['max_episode_steps']: leave the key out."
        )
    return BatchedVectorEnv(
        env,
        device,
        name,
        cfg_env.info_keys,
        clip_rewards=training and cfg_env.clip_rewards,
        act_scale=training and cfg_env.act_scale,
        image_layout=image_layout(builder, cfg_env),
        random_elapsed_steps=training and advances,
    )


def find_batched(builder: Any, cfg_env: EasyDict) -> Callable[[EasyDict, int, torch.device], VectorEnv]:
    """Return the function that makes a simulator: `make_batched` of a registered class, or gymnasium's `make_vec`."""
    if hasattr(builder, "make_batched"):
        make: Callable[[EasyDict, int, torch.device], VectorEnv] = builder.make_batched
        return make
    if cfg_env.type != "gymnasium":
        having = [name for name in ENV_REGISTRY if hasattr(ENV_REGISTRY.find(name), "make_batched")]
        raise ConfigError(
            f"env.type '{cfg_env.type}' has no class method make_batched, which env_manager.type='batched' needs: use "
            f"another manager{', or one of ' + ', '.join(having) if having else ''}."
        )
    spec = find_id(cfg_env.env_id)
    if spec.vector_entry_point is None:
        raise ConfigError(
            f"env.env_id '{cfg_env.env_id}' has no vector_entry_point, which env_manager.type='batched' needs: use "
            "another manager, or register a class with make_batched."
        )

    def make_vec(cfg_env: EasyDict, num_envs: int, device: torch.device) -> VectorEnv:
        env = gymnasium.make_vec(spec, num_envs=num_envs, vectorization_mode="vector_entry_point", **cfg_env.kwargs)
        env.metadata = {"max_episode_steps": spec.max_episode_steps} | env.metadata
        return env

    return make_vec


def check_batched(builder: Any, cfg_env: EasyDict) -> EnvSpec:
    """Build a simulator of two environments, play one step, and return its spaces.

    Raises:
        ConfigError: it does not obey the contract of this module, or a key of `cfg.env` has no meaning for it.
    """
    for key in ("frame_stack", "episodic_life", "episodic_reward", "collector_max_episode_steps"):
        if cfg_env[key] != ENV_DEFAULTS[key]:
            raise ConfigError(
                f"env.{key}: env_manager.type='batched' takes only the default, {ENV_DEFAULTS[key]}: let the simulator "
                "do it, or set the type to 'base' or 'subprocess'."
            )
    name = cfg_env.env_id or cfg_env.type
    with closing(create_batched(builder, cfg_env, NUM_ENVS, training=True)) as env:
        space = env.single_observation_space
        obs, _ = attempt(lambda: env.reset(seed=0), name, "be reset")
        _check_rows(obs, space, name)
        action = tree_map(torch.as_tensor, random_actions(env.action_space, tree_map(_to_numpy, obs)))
        obs, reward_N, terminated_N, truncated_N, info = attempt(lambda: env.step(action), name, "take a step")
        _check_rows(obs, space, name)
        _check_rows(info["final_obs"], space, name)
        for what, tensor, dtype in (
            ("reward", reward_N, torch.float32),
            ("terminated", terminated_N, torch.bool),
            ("truncated", truncated_N, torch.bool),
        ):
            if tensor.shape != (NUM_ENVS,) or tensor.dtype != dtype:
                got = f"{list(tensor.shape)} {tensor.dtype}"
                raise _violation(name, f"step returned {what} {got}, expected {[NUM_ENVS]} {dtype}")
        own = env.unwrapped
        return EnvSpec(
            observation_space=space,
            action_space=env.single_action_space,
            frame_stack=0,
            notes=_notes(env, cfg_env),
            env_action_space=own.single_action_space,
            env_observation_space=own.single_observation_space,
        )


def _notes(env: BatchedVectorEnv, cfg_env: EasyDict) -> tuple[str, ...]:
    """Return what the start of a run says about a simulator that has taken a step."""
    notes = [env.note] * bool(env.note) + [NO_FINAL_OBS] * (not env.has_final_obs)
    if env.metadata["autoreset_mode"] != AutoresetMode.NEXT_STEP:
        return tuple(notes)
    if max(cfg_env.n_evaluator_episode, cfg_env.get("n_confirm_episode", 0)) > cfg_env.evaluator_env_num:
        raise ConfigError(
            f"env.evaluator_env_num={cfg_env.evaluator_env_num}: set it to n_evaluator_episode and n_confirm_episode "
            f"at least. {env.name} spends a step on each reset, which would count as one of the next game."
        )
    return (*notes, RESETS)


def _check_rows(obs: Any, space: gymnasium.Space[Any], name: str) -> None:
    """Check tensors `[N, ...]` of observations against the space of one of them."""
    parts = dict(dotted_items(space.spaces)) if isinstance(space, Dict) else {"": space}
    found = dict(dotted_items(obs)) if isinstance(obs, dict) else {"": obs}
    if found.keys() != parts.keys():
        raise _violation(name, f"its observations have the keys {sorted(found)}, expected {sorted(parts)}")
    for key, part in parts.items():
        shape, dtype = [NUM_ENVS, *(part.shape or ())], torch.from_numpy(np.empty(0, part.dtype)).dtype
        if list(found[key].shape) != shape or found[key].dtype != dtype:
            got = f"{list(found[key].shape)} {found[key].dtype}"
            raise _violation(name, f"its observations {key} are {got}, expected {shape} {dtype}")


def _converter(units: ActionUnits, device: torch.device) -> Any:
    """Return a function that converts a policy's actions, tensors, to those of the simulator; a dict for a Dict."""
    if units.parts:
        return {key: _converter(part, device) for key, part in units.parts.items()}
    if units.same or units.centre is None:
        return lambda action: action
    dtype = torch.from_numpy(np.empty(0, units.env_space.dtype)).dtype
    of_tensor = SimpleNamespace(
        **{
            key: torch.as_tensor(getattr(units, key), device=device)
            for key in ("centre", "half_width", "low", "high")
            if getattr(units, key) is not None
        },
        whole=units.whole,
    )
    if units.half_width is not None:
        return lambda action: scale(action, of_tensor).to(dtype)
    return lambda action: (action.reshape(-1, *units.low.shape) + of_tensor.centre).to(dtype)


def _giver(leaf: Any) -> Callable[[Tensor], Any]:
    """Return a function that turns a tensor into the kind of array that a simulator returned."""
    if isinstance(leaf, Tensor):
        return lambda tensor: tensor
    if isinstance(leaf, np.ndarray):
        return _to_numpy
    import jax  # noqa: PLC0415

    give: Callable[[Tensor], Any] = jax.dlpack.from_dlpack
    return give


def _select(mask_N: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return the rows of `one` where the mask is true, and those of `other` elsewhere, all `[N, ...]`."""
    return torch.where(mask_N.view(-1, *[1] * (one.ndim - 1)), one, other)


def _to_numpy(leaf: Tensor) -> np.ndarray:
    return leaf.cpu().numpy()


def _violation(name: str, what: str) -> ConfigError:
    return ConfigError(f"Environment '{name}', batched: {what}. docs/batched.md has the contract.")
