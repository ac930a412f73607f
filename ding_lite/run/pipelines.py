"""The table of pipelines: the module of each, its name on the command line, and the policies that it trains."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ding_lite.config.config import find_policy, read_pair
from ding_lite.config.schema import PIPELINE_OF
from ding_lite.utils.registry import LEARNING_PARTS, WORLD_MODEL_REGISTRY, ConfigError, closest


class Pipeline(NamedTuple):
    """The facts about a pipeline that are needed without importing it."""

    module: str  # its module in `ding_lite`
    mode: str  # its name for the option `-m` of the command line
    learns: str  # how its policies learn, for messages
    uses: tuple[str, ...] = ()  # the `LEARNING_PARTS` that it uses


PIPELINES = {
    "serial_pipeline": Pipeline("run.serial_entry", "serial", "from a replay buffer", ("reward_model",)),
    "serial_pipeline_onpolicy": Pipeline(
        "run.serial_entry", "serial_onpolicy", "on-policy, without a replay buffer", ("reward_model",)
    ),
    "serial_pipeline_offline": Pipeline("offline.serial_entry_offline", "offline", "from a data set, without playing"),
    "serial_pipeline_bc": Pipeline("offline.serial_entry_offline", "bc", "from a data set, without playing"),
    "serial_pipeline_rpc": Pipeline("observers.serial_entry_rpc", "rpc", "on-policy, from what observers play"),
    "serial_pipeline_sqil": Pipeline(
        "offline.serial_entry_offline", "serial_sqil", "from a replay buffer and an expert's data"
    ),
    "serial_pipeline_dqfd": Pipeline(
        "offline.serial_entry_offline", "serial_dqfd", "from a replay buffer and demonstrations"
    ),
    "serial_pipeline_r2d3": Pipeline(
        "offline.serial_entry_offline", "serial_r2d3", "from a replay buffer and demonstrations"
    ),
    "serial_pipeline_bco": Pipeline(
        "offline.serial_entry_offline", "serial_bco", "from a replay buffer and an expert's observations"
    ),
    "serial_pipeline_gail": Pipeline(
        "imitation.serial_entry_gail", "serial_gail", "from a replay buffer and an expert's data", ("reward_model",)
    ),
    "serial_pipeline_dyna": Pipeline(
        "world_model.serial_entry_mbrl", "dyna", "from a replay buffer and imagined steps", ("world_model",)
    ),
    "serial_pipeline_dream": Pipeline(
        "world_model.serial_entry_mbrl", "dream", "from a replay buffer, through a world model", ("world_model",)
    ),
    "serial_pipeline_guided_cost": Pipeline(
        "imitation.serial_entry_gail",
        "serial_guided_cost",
        "with a reward model and an expert's data",
        ("reward_model",),
    ),
}
# Names for the option `-m`, with those of DI-engine that are other ones.
MODES = {pipeline.mode: name for name, pipeline in PIPELINES.items()} | {
    "serial_offline": "serial_pipeline_offline",
    "serial_onpolicy_ppg": "serial_pipeline_onpolicy",
    "serial_ngu": "serial_pipeline",
    "serial_reward_model": "serial_pipeline",
    "serial_trex": "serial_pipeline",
    "serial_trex_onpolicy": "serial_pipeline_onpolicy",
    "serial_reward_model_onpolicy": "serial_pipeline_onpolicy",
}


def load_pipeline(name: str) -> Callable[..., Any]:
    """Return the function of this name in `ding_lite.entry`."""
    if name not in PIPELINES:
        raise ConfigError(f"Unknown pipeline '{name}'.{closest(name, PIPELINES)} Known: {', '.join(PIPELINES)}.")
    return getattr(importlib.import_module(f"ding_lite.{PIPELINES[name].module}"), name)


def limits_for(pipeline: Callable[..., Any], limits: Mapping[str, int]) -> dict[str, int]:
    """Return limits of a run under the names of a pipeline's parameters."""
    known = inspect.signature(pipeline).parameters
    named = {"max_iter" if "max_iter" in known and key == "max_train_iter" else key: n for key, n in limits.items()}
    unknown = [key for key in named if key not in known]
    if unknown and unknown[0] != "max_env_step":
        raise ConfigError(f"Unknown limit '{unknown[0]}'.{closest(unknown[0], ('max_env_step', 'max_train_iter'))}")
    if unknown:
        raise ConfigError(
            f"{pipeline.__name__} plays no environment, so {unknown[0]} cannot limit it: set max_train_iter."
        )
    return named


def whole_limit(name: str, limit: Any) -> int:
    """Return a limit of a run, given as a number or its text, as an integer; `1e6` is allowed."""
    try:
        number = float(limit)
    except (TypeError, ValueError):
        number = 0.0
    if number < 1 or not number.is_integer():
        raise ConfigError(f"{name}: expected a whole number above 0, got {limit!r}.")
    return int(number)


def find_pipeline(policy_cls: Any) -> Callable[..., Any]:
    """Return the pipeline that trains policies of a class."""
    return load_pipeline(PIPELINE_OF[policy_cls.learns_from])


def pipeline_for(config: Any, overrides: Sequence[str] = ()) -> Callable[..., Any]:
    """Return the pipeline that trains a config by default; arguments as for `compile_config`.

    With a world model, a policy whose losses ask it trains with `serial_pipeline_dream`, any other with `_dyna`.
    """
    policy_cls = find_policy(config, overrides)
    world_model = read_pair(config)[1].get("world_model")
    if isinstance(world_model, dict) and world_model.get("type") in WORLD_MODEL_REGISTRY:
        return load_pipeline(f"serial_pipeline_{'dream' if hasattr(policy_cls, 'world_model') else 'dyna'}")
    return find_pipeline(policy_cls)


def check_pipeline(cfg: Mapping[str, Any], policy_cls: Any, pipeline: str, trains: str) -> None:
    """Raise `ConfigError` if a pipeline does not fit a config.

    The policy's class must name the pipeline `trains`, and only some pipelines use each of the `LEARNING_PARTS`.
    """
    right = PIPELINE_OF[policy_cls.learns_from]
    if right != trains:
        raise ConfigError(
            f"Policy '{cfg['policy']['type']}' learns {PIPELINES[right].learns}: use {right}(...), or on the command "
            f"line -m {PIPELINES[right].mode}, which is also the default."
        )
    for part in LEARNING_PARTS:
        if part in cfg and part not in PIPELINES[pipeline].uses:
            places = " and ".join(f"{name} (-m {each.mode})" for name, each in PIPELINES.items() if part in each.uses)
            raise ConfigError(
                f"{pipeline} does not use a {part.replace('_', ' ')}, only {places}: take one of these, or leave "
                f"create_config.{part} out."
            )


def refuse_options(cfg: Mapping[str, Any], what: str, reason: str) -> None:
    """Raise `ConfigError` if the config has actors, or normalises, which `what` cannot do for a `reason`."""
    for key in ("norm_obs", "norm_reward"):
        if cfg["env"][key]["use_norm"]:
            raise ConfigError(f"env.{key}=True does not work with {what}: {reason}. Set env.{key}=False.")
    refuse_actors(cfg, what)


def refuse_actors(cfg: Mapping[str, Any], what: str) -> None:
    """Raise `ConfigError` if the config has actors, with which `what` does not work."""
    if cfg["policy"]["collect"]["actors"]:
        raise ConfigError(
            f"policy.collect.actors={cfg['policy']['collect']['actors']} does not work with {what}, only with "
            "serial_pipeline and serial_pipeline_onpolicy: set it to 0."
        )
