"""Checks that a model or policy of the user's own fits, by acting once before a run begins."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector.utils import batch_space
from torch import Tensor, nn

from ding_lite.envs import EnvSpec
from ding_lite.policy import Policy
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError
from ding_lite.utils.seed import random_state, set_random_state

NUM = 2  # observations of the trial
OURS = "ding_lite."  # modules whose policies and models fit each other


def check_model(policy: Policy, spec: EnvSpec, fields: tuple[str, ...]) -> None:
    """Act once on observations drawn at random, if the policy or its model is the user's own.

    Random generators and the policy's memory of episodes are as before.
    """
    if all(type(each).__module__.startswith(OURS) for each in (policy, policy.model)):
        return
    state = random_state()
    space = batch_space(spec.observation_space, NUM)
    space.seed(0)
    obs = space.sample()
    if isinstance(obs, dict) and "action_mask" in obs:
        obs["action_mask"] = np.ones_like(obs["action_mask"])
    if "eval" in fields:
        _try(policy, lambda batch: policy.act(batch, explore=False), obs, spec)
        policy.reset(explore=False)
    if "collect" in fields:
        kwargs = policy._begin_collect(0)  # `begin_collect` would count a collect
        _try(policy, lambda batch: policy.act(batch, **kwargs), obs, spec)
        policy.reset()
    set_random_state(state)


def _try(policy: Policy, act: Callable[[Any], dict[str, Any]], obs: Any, spec: EnvSpec) -> None:
    """Act, and check what is returned."""
    seen: list[Any] = []
    hook = policy.model.register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        output = act(obs)
        problem = _find_problem(output, spec)
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        problem = f"{type(error).__name__}: {reason}" + (f" after it returned {_describe(seen[-1])}" if seen else "")
    finally:
        hook.remove()
    if problem:
        name, expected = type(policy.model).__name__, _expected(policy)
        raise ConfigError(f"Model '{name}' does not fit policy '{policy.current_config.type}': {problem}.{expected}")


def _find_problem(output: Any, spec: EnvSpec) -> str:
    """Return what is wrong with a policy's output; empty if it fits."""
    if not isinstance(output, dict) or "action" not in output:
        return f"expected a dict with 'action', got {_describe(output)}"
    rows = {key: output[key] for key in ("action", "logit", "value") if isinstance(output.get(key), Tensor)}
    for key, value in rows.items():
        if value.ndim == 0 or len(value) != NUM or (key == "value" and value.shape == (NUM, 1)):
            shape = f"[{NUM}]" if key == "value" else f"[{NUM}, ...]"
            return f"'{key}': expected {shape} for {NUM} observations, got {_describe(value)}"
    space, logit = spec.action_space, rows.get("logit")
    if isinstance(space, Discrete) and logit is not None and logit.ndim == 2 and logit.shape[1] != space.n:
        return f"'logit': expected [{NUM}, {space.n}], a number for each action, got {_describe(logit)}"
    if not isinstance(space, Discrete) and space.shape and "action" in rows and rows["action"].shape[1:] != space.shape:
        return f"'action': expected {[NUM, *space.shape]}, got {_describe(rows['action'])}"
    return ""


def _describe(value: Any) -> str:
    """Return types and shapes in one line, such as 'a dict of logit [2, 3]'."""
    if isinstance(value, dict):
        return f"a dict of {', '.join(f'{key} {_shape(each)}' for key, each in value.items())}"
    return f"a {type(value).__name__} {_shape(value)}".rstrip()


def _shape(value: Any) -> str:
    return str(list(value.shape)) if hasattr(value, "shape") else ""


def _expected(policy: Policy) -> str:
    """Return a sentence about the policy's usual model; empty if the model is one."""
    usual: Any = MODEL_REGISTRY.get(policy.default_model()[0])
    if usual is None or isinstance(policy.model, usual):
        return ""
    called = "" if usual.forward is nn.Module.forward else f".forward{inspect.signature(usual.forward)}"
    described = inspect.getdoc(usual if not called else usual.forward) or ""
    return f" Expected, as {usual.__name__}{called}: {' '.join(described.split()).partition('. ')[0].rstrip('.')}."
