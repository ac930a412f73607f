"""Applies the wrappers that `env.wrappers` lists to one environment."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import gymnasium.wrappers
import numpy as np
from easydict import EasyDict

from ding_lite.envs.checks import draw_action
from ding_lite.envs.masks import find_mask_space
from ding_lite.envs.returned import fit
from ding_lite.utils.registry import ConfigError, UserError, closest, place_of
from ding_lite.utils.tree import MASK, tree_leaves

TRUE_REWARD = "ding_lite.true_reward"  # key of `info`; an environment may set it, too
RECORDER = "RecordEpisodeStatistics"  # the wrapper whose place says which rewards are the true ones
REPLACED = {"NormalizeObservation": "env.norm_obs", "NormalizeReward": "env.norm_reward"}
KNOWN = tuple(name for name in gymnasium.wrappers.__all__ if name != "vector")  # `vector` is a package
ENGINES = ("native", "env_pool", "batched")  # managers that play all environments at once
TRIAL_STEPS = 16  # env steps of the episode that is played twice


def check_wrappers(cfg_env: EasyDict) -> None:
    """Check `cfg.env.wrappers` without building an environment."""
    for item in cfg_env.wrappers:
        name, _ = _read(item)
        if name in REPLACED:
            raise ConfigError(
                f"env.wrappers: '{name}' would give each environment statistics of its own, which checkpoints do not "
                f"hold: set {REPLACED[name]}=True instead."
            )
        _find(name)
    if cfg_env.manager.type in ENGINES:
        raise ConfigError(
            "env.wrappers: a native engine runs all environments at once, so they cannot be wrapped one by one: set "
            "env_manager.type to 'base' or 'subprocess'."
        )


def _read(item: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of an item of `env.wrappers`."""
    options = {"name": item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(
            f"env.wrappers: expected a name such as 'FlattenObservation', or dict(name='TimeLimit', "
            f"max_episode_steps=200), got {item!r}."
        )
    return name, options


def _find(name: str) -> Callable[..., gymnasium.Env]:
    """Return the class of a wrapper: one of `gymnasium.wrappers`, or the user's own, `module:Class`."""
    module, _, attribute = name.rpartition(":")
    if not module and name not in KNOWN:
        raise ConfigError(
            f"env.wrappers: gymnasium.wrappers has no '{name}'.{closest(name, KNOWN)} A wrapper of your own is "
            "'module:Class'."
        )
    try:
        return getattr(importlib.import_module(module or "gymnasium.wrappers"), attribute)
    except (Exception, SystemExit) as error:  # a module of the user's may raise anything
        own = not isinstance(error, (ImportError, AttributeError, ValueError, gymnasium.error.Error))
        place = f"{place_of(error)}{type(error).__name__}: " if own else ""
        raise ConfigError(f"env.wrappers: '{name}' cannot be imported: {place}{error}.") from error


def apply_wrappers(env: gymnasium.Env, wrappers: Sequence[Any]) -> gymnasium.Env:
    """Wrap an environment in these wrappers, the first one innermost.

    `info[TRUE_REWARD]` is the reward below all wrappers, or at the place of `RecordEpisodeStatistics` if it is one of
    them. Episode returns are sums of these. If the environment has been wrapped by this function before, its value
    counts instead of the reward below all wrappers.
    """
    items = [_read(item) for item in wrappers]
    names = [name for name, _ in items]
    place = names.index(RECORDER) if RECORDER in names else 0
    meter: RewardMeter | None = None
    for number, (name, options) in enumerate(items):
        if number == place:
            env = meter = RewardMeter(env, below_all=number == 0)
        mask = find_mask_space(env.observation_space)
        if name == "FlattenObservation":  # it takes a label that does not exist for another one
            where, space = f"env.wrappers: '{name}' gets an observation", env.observation_space
            env = gymnasium.wrappers.TransformObservation(env, partial(fit, space=space, where=where), space)
        try:
            env = _find(name)(env, **options)
        except UserError:  # its message already says what is wrong
            raise
        except Exception as error:  # a wrapper may raise anything
            cause = " ".join(f"{type(error).__name__}: {error}".split())
            place_text = "" if isinstance(error, TypeError) else place_of(error)  # wrong arguments have no place
            raise ConfigError(f"env.wrappers: '{name}' with {options} fails: {place_text}{cause}") from error
        if not isinstance(env, gymnasium.Env):
            raise ConfigError(f"env.wrappers: '{name}' returned a {type(env).__name__}, expected a gymnasium.Env.")
        if mask is not None and find_mask_space(env.observation_space) != mask:
            raise ConfigError(
                f"env.wrappers: '{name}' changes or removes the '{MASK}' of the observations: leave it out, or put it "
                "before the wrapper that adds the mask."
            )
    assert meter is not None
    return TrueRewards(env, meter)


class RewardMeter(gymnasium.Wrapper):
    """Sums the rewards that the wrapped environment returns, of several steps if an outer wrapper repeats actions.

    With `below_all`, no wrapper of the list is below this one, and a true reward in `info` replaces a reward. `total`
    is the sum since it was last set to 0.
    """

    def __init__(self, env: gymnasium.Env, below_all: bool) -> None:
        super().__init__(env)
        self.total = 0.0
        self._below_all = below_all

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.total += float(info.get(TRUE_REWARD, reward) if self._below_all else reward)
        return obs, reward, terminated, truncated, info


class TrueRewards(gymnasium.Wrapper):
    """Adds the true reward of the newest step to `info`, and after the last step of an episode to that of the reset.

    A vector environment in SAME_STEP mode returns the `info` of the reset where an episode ended.
    """

    def __init__(self, env: gymnasium.Env, meter: RewardMeter) -> None:
        super().__init__(env)
        self._meter = meter

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        newest = self._meter.total
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, {**info, TRUE_REWARD: newest}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._meter.total = 0.0
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, TRUE_REWARD: self._meter.total}


def find_own_randomness(env: gymnasium.Env) -> str:
    """Return a message for the user if an episode that is played twice with the same seed and actions differs."""
    actions: list[Any] = []
    if _play(env, actions) == _play(env, actions):
        return ""
    return (
        "env.wrappers: an episode that is played twice with the same seed and actions differs, so a resumed run will "
        "differ from one that was never stopped. A wrapper draws random numbers that do not follow the seed of reset, "
        "or keeps something from one episode to the next: draw them from self.np_random."
    )


def _play(env: gymnasium.Env, actions: list[Any]) -> list[Any]:
    """Return what an environment returns in a few steps. The actions are drawn and appended, if there are none yet."""
    given = list(actions)
    obs, _ = env.reset(seed=0)
    rows: list[Any] = [_to_bytes(obs)]
    for t in range(TRIAL_STEPS):
        if not given:
            actions.append(draw_action(env, obs))
        elif t == len(actions):
            break
        obs, reward, terminated, truncated, _ = env.step(actions[t])
        rows.append((_to_bytes(obs), float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            break
    return rows


def _to_bytes(obs: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in tree_leaves(obs)]
