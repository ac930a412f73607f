"""Fits a compiled config to its environment, machine and rank: shapes, memory, and the sizes of `policy.divide`.

If `policy.divide` says that sizes are those of all ranks together, a rank gets whole environments, in order, and of
everything else what belongs to them: so all environments take equally many steps between two updates, keep equally many
rows in replay, and a sample is drawn as often on whichever rank it is. Ranks differ by one environment at most.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from ding_lite.config import schema as sc
from ding_lite.envs.masks import check_choices, find_mask_space
from ding_lite.envs.spaces import EnvSpec, count_agents
from ding_lite.utils.key import describe, get_key, matches, set_key
from ding_lite.utils.ranks.launch_environment import share
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import MASK, tree_leaves

# Values of `action_space` that name a kind of actions, and the spaces that have it. Others say what the model returns.
KINDS: dict[str, type] = {
    "discrete": spaces.Discrete,
    "multi_discrete": spaces.MultiDiscrete,
    "continuous": spaces.Box,
    "hybrid": spaces.Dict,
}
MODEL = "policy.model."  # begins the keys of the model
FIRST_ACTIONS = "ding_lite.envs.actions:FirstActions"
ENVS, ACTORS, BATCH = "env.collector_env_num", "policy.collect.actors", "policy.learn.batch_size"
# Sizes of which each environment has an equal part.
SIZE = f"{sc.BUFFER}.replay_buffer_size"
PARTS = ("policy.collect.n_sample", "policy.collect.n_episode", SIZE)


def set_shapes(cfg: EasyDict, env_spec: EnvSpec, model_given: bool = False, max_env_step: int | None = None) -> None:
    """Do what `fit_shapes` does, for a compiled config alone. If `model_given`, no shapes are set, only checked."""
    policy_cls = POLICY_REGISTRY.find(cfg.policy.type)
    fit_shapes(cfg, policy_cls, {} if model_given else sc.model_options(policy_cls, cfg, {}), env_spec, max_env_step)


def fit_shapes(
    cfg: EasyDict, policy_cls: Any, schema: sc.Schema, env_spec: EnvSpec, max_env_step: int | None = None
) -> None:
    """Set the model's shapes and bounds from the environment's spaces; what the user has set must agree with them.

    `schema` has the keys of `policy.model`; none of a model that the user passes. A replay buffer that does not fit
    into the memory is as large as what a run of `max_env_step` env steps stores, if there is such a limit.
    """
    model, space, obs_space = cfg.policy.model, env_spec.action_space, env_spec.observation_space
    options = {path.removeprefix(MODEL): key for path, key in schema.items() if path.startswith(MODEL)}
    agents = count_agents(obs_space, space)
    if policy_cls.multi_agent or cfg.policy.get("multi_agent"):
        shapes = _agent_shapes(cfg.policy, policy_cls, agents, obs_space, space, "agent_num" in options)
        space = _actions_of_one(space)
    else:
        if agents and options:
            _check_single(cfg.policy, agents, obs_space)
        shapes = {"obs_shape": _obs_shape_of(obs_space), "action_shape": _shape_of(space)}
    kind = _kind_of(space) if policy_cls.multi_agent else _check_actions(cfg.policy.type, policy_cls, space)
    _check_stack(cfg.env.frame_stack, env_spec)
    _fit_range(cfg.policy, policy_cls.unit_actions, "bound_type" in options, space)
    if model.get("action_space") in (None, *KINDS):
        shapes["action_space"] = kind
        if (model.get("action_space"), kind) == ("discrete", "multi_discrete"):
            model.pop("action_space")  # DI-engine's name for both
    takes = {key: key in options and matches(shape, options[key].hint) for key, shape in shapes.items()}
    if find_mask_space(obs_space) is not None:
        if takes["obs_shape"]:
            check_choices(space)
        else:
            shapes["obs_shape"] = None  # the model is the user's own, and reads the mask itself
    for key, shape in shapes.items():
        given = model.get(key)
        if given is None or _same_shape(given, shape):
            if shape and takes[key]:
                model[key] = shape
        elif shape:
            raise ConfigError(
                f"policy.model.{key}: expected the environment's {shape} (env.frame_stack={cfg.env.frame_stack}), got "
                f"{given}. Leave it out: it is then set from the environment."
            )
    _check_required(cfg.policy, options, obs_space)
    if cfg.env.norm_obs.use_norm and not has_floats(obs_space):
        raise ConfigError(
            f"env.norm_obs=True, but the observations are {obs_space}: images of bytes are scaled to 0..1 by the "
            "networks. Set env.norm_obs=False."
        )
    check_memory(cfg, obs_space, max_env_step)


def play_first_actions(cfg: EasyDict, env_spec: EnvSpec) -> bool:
    """Add a wrapper that leaves only the first actions of the environment, if the config says that there are fewer.

    DI-engine does not compare `policy.model.action_shape` with the environment. Return whether the config has changed.
    """
    space, number, managed = env_spec.action_space, cfg.policy.model.get("action_shape"), cfg.env.manager.type
    masked = find_mask_space(env_spec.observation_space) is not None
    if not isinstance(space, spaces.Discrete) or type(number) is not int or masked or managed == "native":
        return False
    if not 1 < number < space.n:
        return False
    cfg.env.wrappers = [*cfg.env.wrappers, {"name": FIRST_ACTIONS, "number": number}]
    cfg.notes.append(
        f"policy.model.action_shape={number}: the first {number} of the environment's {space.n} are played."
    )
    return True


def _check_required(policy: EasyDict, options: sc.Schema, obs_space: spaces.Space[Any]) -> None:
    """Raise `ConfigError` if an argument that the model needs is not set."""
    missing = [key for key, option in options.items() if option.default is sc.REQUIRED]
    for key in (key for key in missing if get_key(policy.model, key) is None):
        if key == "obs_shape" and isinstance(obs_space, spaces.Dict):
            raise ConfigError(
                f"The environment's observations are a Dict of {', '.join(obs_space)}, but the model of policy "
                f"'{policy.type}' takes one array: wrap the environment in gymnasium.wrappers.FlattenObservation, or "
                "set policy.model.type to a model of your own that takes the dict."
            )
        expected = describe(options[key].hint)
        raise ConfigError(f"{MODEL}{key} is not set and does not follow from the environment: expected {expected}.")


def _check_single(policy: EasyDict, agents: int, obs_space: Any) -> None:
    """Raise `ConfigError` if a built-in model of one agent would see what several agents observe."""
    own = policy.model.get("type") or policy.model.get("encoder")
    if own or len(obs_space["agent_state"].shape) == 1:
        return
    others = [name for name, cls in sorted(POLICY_REGISTRY.items()) if cls.multi_agent]
    advice = "set policy.multi_agent=True" if "multi_agent" in policy else f"use {_listed(others)}"
    raise ConfigError(f"The environment has {agents} agents, but policy '{policy.type}' plays for one: {advice}.")


def _agent_shapes(
    policy: EasyDict, policy_cls: Any, number: int, obs: Any, actions: Any, knows_agents: bool
) -> dict[str, Any]:
    """Return the shapes of one of several agents; a model that does not know of agents sees a row of `AgentRows`."""
    if number == 0:
        remedy = "a policy of one agent" if policy_cls.multi_agent else "leave policy.multi_agent out"
        raise ConfigError(
            f"Policy '{policy.type}' learns for several agents: expected Dict observations with agent_state [M, ...], "
            "and MultiDiscrete actions of M equal numbers for M agents, of which an action_mask forbids those that one "
            f"lacks, or a Box [M, D] with equal rows, got {obs} and {actions}: choose such an environment, or {remedy}."
        )
    if policy_cls.multi_agent:
        _check_takes(f"Policy '{policy.type}'", policy_cls, type(actions), actions)
    shapes = {key: list(part.shape or ()) for key, part in obs.spaces.items()}
    _check_state(policy, policy_cls, shapes.get("global_state", [0]), number)
    sizes = {"obs_shape": shapes["agent_state"][1:], "global_obs_shape": shapes.get("global_state", [])[-1:]}
    single = {key: size[0] if len(size) == 1 else size or None for key, size in sizes.items()}
    options = _shape_of(one := _actions_of_one(actions))
    if not knows_agents:
        seen = sizes["obs_shape"]
        mask = {MASK: options} if isinstance(one, spaces.Discrete) else {}
        single = {"obs_shape": {"agent_state": seen[0] + number if len(seen) == 1 else seen, **mask}}
    return {"agent_num": number, "action_shape": options, **single}


def _actions_of_one(space: Any) -> spaces.Discrete | spaces.Box:
    """Return the action space of one of several agents, which all have the same."""
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Discrete(int(space.nvec.flat[0]))
    return spaces.Box(space.low[0], space.high[0], dtype=space.dtype.type)


def _check_state(policy: EasyDict, policy_cls: Any, shape: list[int], number: int) -> None:
    """Raise `ConfigError` if a policy of several agents cannot learn from a global state of this shape."""
    mixer = policy.model.get("mixer")  # VDN, with mixer=False, does not read the state
    of_each = policy.get("multi_agent") or (getattr(policy_cls, "state_of_each", False) and not mixer)
    allowed = [shape[-1:], [number, *shape[-1:]]] if of_each else [shape[-1:]]
    if (of_each or mixer is not False) and shape not in allowed:
        raise ConfigError(
            f"Policy '{policy.type}' learns from a vector that shows the state of the whole task: expected global_state"
            f" [G]{' or [M, G]' * (len(allowed) - 1)} in the observations, got {shape} for M={number} agents: flatten "
            "it in the environment."
        )


def _check_actions(policy_type: str, policy_cls: Any, space: spaces.Space[Any]) -> str:
    """Return the kind of a space of actions, see `_kind_of`; raise `ConfigError` if the policy does not take it."""
    kind = _kind_of(space)
    if kind is None:
        raise ConfigError(
            f"The environment's actions are {space}: expected Discrete, MultiDiscrete, MultiBinary, a Box of one "
            "dimension, or a Dict of Discrete and Box with the keys 'action_type' and 'action_args'."
        )
    _check_takes(f"Policy '{policy_type}'", policy_cls, type(space), space)
    return kind


def _fit_range(policy: EasyDict, unit_actions: bool, has_bounds: bool, space: spaces.Space[Any]) -> None:
    """If a number of the actions ranges elsewhere than from -1 to 1, let the model be unbounded, if it can be."""
    name = ""
    if isinstance(space, spaces.Dict):
        space, name = space["action_args"], " of 'action_args'"
    if not isinstance(space, spaces.Box) or not (elsewhere := (space.low != -1) | (space.high != 1)).any():
        return
    if not unit_actions and policy.model.get("bound_type") is None:
        if has_bounds:
            policy.model.bound_type = None  # the default of some models is 'tanh'
        return
    number = int(elsewhere.argmax())
    low, high = space.low[number], space.high[number]
    advice = "set env.act_scale=True"
    if not np.isfinite([low, high]).all():
        advice = (
            "bound it with env.wrappers=[dict(name='ding_lite.envs.actions:BoundActions', low=..., high=...)], or in "
            "code with gymnasium.wrappers.TransformAction (ClipAction removes bounds)"
        )
    key = "" if unit_actions else f" with policy.model.bound_type='{policy.model.bound_type}'"
    raise ConfigError(
        f"Policy '{policy.type}' acts between -1 and 1{key}, but dimension {number}{name} of the environment's "
        f"actions ranges from {low:g} to {high:g}: {advice}."
    )


def check_action_space(user: dict[str, Any], policy_cls: Any, path: str = f"{MODEL}action_space") -> None:
    """Check that the policy takes the kind of actions that `action_space` names, if it names one of `KINDS`.

    Without this check, the message would be about the model's parameter, and would not say which policy to use. `user`
    has the nested keys that the user set, `action_space` under `path`.
    """
    if isinstance(kind := get_key(user, path), str) and kind in KINDS:
        _check_takes(f"{path}: policy '{get_key(user, 'policy.type')}'", policy_cls, KINDS[kind], f"'{kind}'")


def _check_takes(who: str, policy_cls: Any, space: type, got: Any) -> None:
    """Raise `ConfigError` if a policy does not take a space of actions. The message says which policies do.

    First come those that learn from the same source.
    """
    if issubclass(space, policy_cls.action_spaces):
        return
    source, offline = policy_cls.learns_from, policy_cls.learns_from == "dataset"
    takers = [
        (cls.learns_from != source, name)
        for name, cls in POLICY_REGISTRY.items()
        if issubclass(space, cls.action_spaces) and gymnasium.Space not in cls.action_spaces
        if cls.multi_agent == policy_cls.multi_agent and (cls.learns_from == "dataset") == offline
    ]
    what = " that learns from a data set" if offline else ""
    advice = f"no policy{what} takes {space.__name__} actions; wrap the environment."
    if takers:
        advice = f"use {_listed([name for _, name in sorted(takers)])}."
    expected = _listed([each.__name__ for each in policy_cls.action_spaces])
    raise ConfigError(f"{who} expects {expected} actions, got {got}: {advice}")


def _listed(names: list[str]) -> str:
    """Return 'a, b or c'."""
    return f"{', '.join(names[:-1])}{' or ' * (len(names) > 1)}{names[-1]}"


def _same_shape(given: Any, shape: Any) -> bool:
    """Return whether two shapes, or dicts of shapes, are equal; a length may be written as a number or as a list."""
    if isinstance(given, dict) and isinstance(shape, dict):
        return given.keys() == shape.keys() and all(_same_shape(given[key], shape[key]) for key in shape)
    left, right = (part[0] if isinstance(part, list) and len(part) == 1 else part for part in (given, shape))
    return bool(left == right)


def _check_stack(stack: int, env_spec: EnvSpec) -> None:
    """Raise `ConfigError` if `env.frame_stack` does not fit the environment or replay."""
    if stack > 1 and env_spec.frame_stack != stack:
        raise ConfigError(f"env.frame_stack={stack}, but the environment stacks {env_spec.frame_stack} frames.")
    if stack > 1 and find_mask_space(env_spec.observation_space) is not None:
        raise ConfigError(
            f"env.frame_stack={stack}, but the observations have an action_mask, of which only the newest counts: set "
            "env.frame_stack=0, or stack what needs it with a wrapper of your own."
        )


def _kind_of(space: spaces.Space[Any]) -> str | None:
    """Return the value of `policy.model.action_space` for a space.

    It is empty for spaces that have no name in the built-in models, and None for those that are not supported.
    """
    if isinstance(space, spaces.Box) and len(space.shape) != 1:
        return None
    if isinstance(space, spaces.Dict):
        kinds = {key: type(part) for key, part in space.items()}
        hybrid = {"action_type": spaces.Discrete, "action_args": spaces.Box}
        return "hybrid" if kinds == hybrid and len(space["action_args"].shape or ()) == 1 else None
    return next((kind for kind, cls in KINDS.items() if isinstance(space, cls)), "")


def _shape_of(space: spaces.Space[Any]) -> Any:
    """Return the value of `obs_shape` or `action_shape` for a space; None if it does not have a single shape."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.Dict) and set(space) == {"action_type", "action_args"}:
        return {f"{key}_shape": _shape_of(part) for key, part in space.items()}
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.tolist()  # a list with one choice too: its actions are arrays, unlike those of Discrete
    shape = [int(n) for n in space.shape or ()]
    return (shape[0] if len(shape) == 1 else shape) or None


def _obs_shape_of(space: spaces.Space[Any]) -> Any:
    """Return the value of `obs_shape` for a space: that of each part of a Dict; None if a part is not a Box.

    The `action_mask` of a Dict may be of any space.
    """
    if not isinstance(space, spaces.Dict):
        return _shape_of(space)
    shapes = {
        key: _obs_shape_of(part) if isinstance(part, spaces.Box | spaces.Dict) else None for key, part in space.items()
    }
    if (mask := find_mask_space(space)) is not None:
        shapes[MASK] = _shape_of(mask)
    return None if None in shapes.values() else shapes


def check_memory(cfg: EasyDict, obs_space: spaces.Space[Any], max_env_step: int | None = None) -> None:
    """Check that the buffers and networks of a config fit into the memory of this machine.

    Without this check, the run would fail much later, when the memory is allocated or filled. A replay buffer that does
    not fit is cut to what a run of `max_env_step` can store, with a note; it then holds the same samples.
    """
    unroll_len = cfg.policy.get("unroll_len", 1)
    obs_bytes = sum(leaf.nbytes for leaf in tree_leaves(create_empty_array(obs_space, 1))) * unroll_len
    each = {PARTS[0]: obs_bytes, SIZE: obs_bytes // max(cfg.env.frame_stack, 1)}
    counts = {path: get_key(cfg, path) or 0 for path in each}
    needed = {path: counts[path] * num_bytes for path, num_bytes in each.items()}
    model = cfg.policy.model
    for key, value in model.items():
        if key.endswith("hidden_size_list") and matches(value, list[int]):
            layers = sum(math.prod(pair) for pair in itertools.pairwise(value))
        elif key.endswith("hidden_size") and matches(value, int):
            layers = value**2 * model.get(f"{key.removesuffix('hidden_size')}layer_num", 1)
        else:
            continue
        needed[f"{MODEL}{key}"] = layers * 16  # bytes: float32 weights, gradients and Adam's two moments
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    stored = (max_env_step or 2**62) // unroll_len + counts[PARTS[0]]
    stored += cfg.env.collector_env_num - stored % cfg.env.collector_env_num  # a run ends with a whole collect
    if needed[SIZE] > total and stored * each[SIZE] <= total:
        cfg.notes.append(f"{SIZE}={counts[SIZE]} is {stored} here: the run stores no more.")
        cfg.policy.other.replay_buffer.replay_buffer_size = stored
        del needed[SIZE]
    for path, num_bytes in needed.items():
        if num_bytes > total:
            what = f"{get_key(cfg, path)} takes {num_bytes / 2**30:.3g} GiB"
            raise ConfigError(f"{path}={what}, but this machine has {total / 2**30:.3g} GiB: reduce it.")


def has_floats(space: spaces.Space[Any]) -> bool:
    """Return whether the observations of a space have something that `env.norm_obs` normalises."""
    if isinstance(space, spaces.Dict):
        return any(has_floats(part) for key, part in space.items() if key != MASK)
    return np.issubdtype(space.dtype, np.floating)


def divide(cfg: EasyDict, learns_from: str, rank: int, ranks: int) -> EasyDict:
    """Return the config of one rank: without `policy.divide` the compiled config itself, else a copy with its sizes."""
    if not cfg.policy.get("divide"):
        return cfg
    own = copy.deepcopy(cfg)
    for path, size in _sizes_of_rank(cfg, learns_from, rank, ranks).items():
        set_key(own, path, size)
    return own


def _sizes_of_rank(cfg: EasyDict, learns_from: str, rank: int, ranks: int) -> dict[str, float]:
    """Return the sizes in which the config of one rank differs.

    `random_collect_size` stays that of all ranks. On-policy, `batch_size` may become a fraction: each collect is cut
    into as many minibatches as one process would make. Actors keep their environments and, on-policy, the samples that
    each of them plays in a collect, because a collect then has a rollout of every actor.
    """
    collect, batch_size, num_envs = cfg.policy.collect, cfg.policy.learn.batch_size, cfg.env.collector_env_num
    if learns_from == "dataset":
        return {BATCH: _part(BATCH, batch_size, ranks, 1, ranks)}
    whole = {path: size for path in PARTS if (size := get_key(cfg, path)) is not None}
    actors, sizes = collect.get("actors", 0), dict[str, float]()
    number = actors or num_envs
    shares = [share(number, each, ranks) for each in range(ranks)]
    _check_enough(ACTORS if actors else ENVS, number, [len(each) for each in shares])
    if not actors:
        sizes[ENVS] = len(shares[rank])
        for path, size in whole.items():  # the parts of all ranks, so that all fail
            sizes[path] = [_part(path, size, num_envs, len(each), ranks) for each in shares][rank]
    elif learns_from == "replay":  # a collect is a rollout of one actor of each rank
        unit = num_envs // math.gcd(num_envs, cfg.policy.get("unroll_len", 1))  # samples when all have taken a step
        sizes[PARTS[0]] = unit * _part(PARTS[0], collect.n_sample or num_envs, unit * ranks, 1, ranks)
        sizes[SIZE] = whole[SIZE] // ranks
    if learns_from == "collect":
        return sizes | {BATCH: batch_size / ranks}
    batches = [batch_size * each.stop // number - batch_size * each.start // number for each in shares]
    _check_enough(BATCH, batch_size, batches)
    return sizes | {BATCH: batches[rank]}


def _part(path: str, value: int, parts: int, number: int, ranks: int) -> int:
    """Return the share of one rank in a size, `number` of equal `parts`."""
    if value * number % parts:
        below, above = value // parts * parts, -(-value // parts) * parts
        raise ConfigError(
            f"{path}={value} is shared by {ranks} ranks (policy.divide): expected a multiple of {parts}, such as "
            f"{f'{below} or ' if below else ''}{above}."
        )
    return value * number // parts


def _check_enough(path: str, value: int, shares: list[int]) -> None:
    if min(shares) < 1:
        raise ConfigError(
            f"{path}={value} is shared by {len(shares)} ranks (policy.divide): set at least {len(shares)}, or start at "
            f"most {value} ranks."
        )
