"""Writes a policy as one module that maps observations to actions, for programs without ding_lite.

Shapes: N observations in a batch.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import nn

from ding_lite.entry.acting import AgentError
from ding_lite.envs.actions import ActionUnits, bounds_of, scale
from ding_lite.policy import Policy
from ding_lite.torch_utils.normalizer import MASK
from ding_lite.utils.registry import ConfigError, load_extra
from ding_lite.utils.tree import dotted_items, tree_leaves, tree_map

ENDINGS = (".pt2", ".onnx")
TRIALS = 64  # observations for which the actions are compared
TOLERANCE = 1e-4  # largest difference between float actions, relative to their size or to 1
ONNX = ("onnx", "onnxscript", "onnxruntime")


class ActingModule(nn.Module):
    """Maps observations `[N, ...]`, as `Agent.make_env` returns them, to the environment's actions `[N, ...]`.

    It normalises the observations, chooses the best action, and converts it.
    """

    def __init__(self, policy: Policy, units: ActionUnits) -> None:
        super().__init__()
        self.networks = nn.ModuleList([policy.model, policy.normalizer])  # exported with the module
        self._policy, self._units = policy, units

    def forward(self, obs: Any) -> Any:
        return to_env(self._units, self._policy.act(obs, explore=False)["action"])


def to_env(units: ActionUnits, action: Any) -> Any:
    """Convert actions `[N, ...]` of tensors as `ActionUnits.to_env` does."""
    if units.parts:
        return {key: to_env(part, action[key]) for key, part in units.parts.items()}
    if units.centre is None:
        return action
    dtype = torch.from_numpy(np.empty(0, units.env_space.dtype)).dtype
    if units.half_width is None:
        return (action.reshape(-1, *units.low.shape) + torch.as_tensor(units.centre)).to(dtype)
    ends = {name: torch.as_tensor(getattr(units, name)) for name in ("low", "high", "centre", "half_width")}
    return scale(action, SimpleNamespace(whole=units.whole, **ends)).to(dtype)


def export_policy(policy: Policy, observation_space: gymnasium.Space[Any], units: ActionUnits, path: str) -> None:
    """Write a policy's module to a file, and check that the file acts as the policy does.

    The policy is a copy on the CPU, built for 'eval'; its parameters no longer get gradients. `path` ends with '.pt2'
    or '.onnx'.
    """
    ending = os.path.splitext(path)[1]
    obs = draw_observations(observation_space, TRIALS)
    output = policy.act(obs, explore=False)
    if list(tree_leaves(output.get("prev_state", {}))):  # that of agents without a memory is empty
        raise AgentError(
            "A recurrent policy cannot be exported: its actions depend on a state. Load it with ding_lite.load."
        )
    expected = units.to_env(tree_map(lambda leaf: leaf.numpy(), output["action"]))
    policy.model.requires_grad_(False)
    module = ActingModule(policy, units).eval()
    write, run = (_write_pt2, _run_pt2) if ending == ".pt2" else (_write_onnx, _run_onnx)
    temporary = f"{os.path.splitext(path)[0]}.tmp{ending}"
    try:
        with _quiet():
            write(module, tree_map(torch.from_numpy, obs), temporary)
            for number in (1, TRIALS):
                part = tree_map(lambda leaf: leaf[:number], obs)  # noqa: B023  (called at once)
                _compare(list(tree_leaves(expected)), run(temporary, part), number)
        os.replace(temporary, path)
    except AgentError:
        raise
    except OSError as error:
        raise AgentError(f"Cannot write '{path}': {error.strerror}.") from error
    except Exception as error:  # torch's exporters raise anything
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise AgentError(f"The policy cannot be exported as '{ending}': {cause}") from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def check_target(path: str) -> None:
    """Check that a module can be written to `path`."""
    ending = os.path.splitext(path)[1]
    if ending not in ENDINGS:
        raise ConfigError(f"'{path}': expected a file that ends with {' or '.join(ENDINGS)}.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise ConfigError(f"Cannot write '{path}': its directory does not exist.")
    for name in ONNX if ending == ".onnx" else ():
        load_extra(name, "onnx", "Exporting to ONNX")


def draw_observations(space: gymnasium.Space[Any], number: int) -> Any:
    """Draw observations `[number, ...]` at random, the same ones each time.

    Floats are normally distributed and clipped to their bounds. A mask allows at least its first action.
    """
    rng = np.random.default_rng(0)

    def draw(part: gymnasium.Space[Any], key: str) -> Any:
        if isinstance(part, Dict):
            return {name: draw(one, name) for name, one in part.items()}
        shape = (number, *(part.shape or ()))
        if isinstance(part, Box) and np.issubdtype(part.dtype, np.floating):
            return np.clip(rng.normal(size=shape), part.low, part.high).astype(part.dtype)
        low, high = (end.astype(np.int64) for end in bounds_of(part))  # type: ignore[arg-type]  # checked before
        drawn = rng.integers(low, high, shape, endpoint=True).astype(part.dtype)
        if key == MASK:
            drawn[..., 0] = 1
        return drawn

    return draw(space, "")


def _compare(expected: list[np.ndarray], found: list[np.ndarray], number: int) -> None:
    """Check that the first `number` actions equal those that were found."""
    for whole, two in zip(expected, found, strict=True):
        one = whole[:number]
        if one.shape != two.shape or not np.allclose(one, two, TOLERANCE, TOLERANCE if one.dtype.kind == "f" else 0.0):
            raise AgentError("The exported module's actions differ from the policy's, so it was not written.")


def _write_pt2(module: nn.Module, obs: Any, path: str) -> None:
    torch.export.save(_export(module, obs), path)


def _export(module: nn.Module, obs: Any) -> Any:
    shapes = tree_map(lambda _: {0: torch.export.Dim.DYNAMIC}, obs)
    with torch.no_grad():
        return torch.export.export(module, (obs,), dynamic_shapes=(shapes,), strict=False)


def _run_pt2(path: str, obs: Any) -> list[np.ndarray]:
    action = torch.export.load(path).module()(tree_map(torch.from_numpy, obs))
    return [leaf.detach().numpy() for leaf in tree_leaves(action)]


def _write_onnx(module: nn.Module, obs: Any, path: str) -> None:
    names = [name for name, _ in dotted_items({"obs": obs})]
    program = _export(module, obs)
    torch.onnx.export(program, (), path, input_names=names, dynamo=True, external_data=False, verbose=False)


def _run_onnx(path: str, obs: Any) -> list[np.ndarray]:
    session = load_extra("onnxruntime", "onnx").InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, tree_leaves(obs), strict=True)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Return a context manager that hides what torch's exporters warn and report about their own parts."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
