"""Converts observations to what a policy takes, and its actions to what an environment takes; also in exported files.

An exported file has one module that maps observations to actions, for programs without ding_lite.

Shapes: N observations in a batch.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, MultiBinary
from torch import nn

from ding_lite.envs.actions import ActionUnits, bounds_of, scale
from ding_lite.envs.masks import read_mask
from ding_lite.envs.returned import EnvError, fit, plain_array
from ding_lite.envs.spaces import observation_forms, space_leaves
from ding_lite.policy import Policy
from ding_lite.utils.disk import describe_os_error
from ding_lite.utils.key import set_key, show
from ding_lite.utils.registry import ConfigError, UserError, load_extra
from ding_lite.utils.tree import MASK, dotted_items, leave_out, tree_leaves, tree_map

FEW = 3  # keys of a dict that a message names
ENDINGS = (".pt2", ".onnx")
TRIALS = 64  # observations for which the actions are compared
TOLERANCE = 1e-4  # largest difference between float actions, relative to their size or to 1
ONNX = ("onnx", "onnxscript", "onnxruntime")


class AgentError(UserError, ValueError):
    """A call that an agent cannot carry out, because of its arguments or its policy."""


class Observations:
    """Reads one observation or a batch of them, from arrays, tensors, lists or dicts of these.

    The first four arguments are those of `observation_forms`. Zeros replace the parts at the dotted paths `unseen`,
    which the policy does not read when it acts, if they are missing.
    """

    def __init__(
        self,
        space: gymnasium.Space[Any],
        env_space: gymnasium.Space[Any] | None,
        layout: str = "",
        actions: gymnasium.Space[Any] | None = None,
        unseen: Sequence[str] = (),
    ) -> None:
        self._space, self._unseen = space, unseen
        forms = observation_forms(space, env_space, layout, actions)
        self._forms = [(form, dict(space_leaves(form)), convert) for form, convert in forms]

    def read(self, obs: Any) -> tuple[Any, int | None]:
        """Return a batch `[N, ...]` for a policy, and N; for one observation, a batch of one and None.

        Raises:
            AgentError: the observations have other keys, another shape or another kind of numbers, or values that are
                not in their space.
        """
        wrong = None
        for space, parts, convert in self._forms:
            if (batch := _batch(self._filled(obs, parts), space)) is None:
                continue
            leaves = dotted_items(batch[0]) if isinstance(batch[0], dict) else [("", batch[0])]
            wrong = next((parts[path] for path, leaf in leaves if _is_float_for(leaf, parts[path], path)), None)
            if wrong is None:
                return convert(_fit(batch[0], space, "Observations")), batch[1]
        if wrong is not None:
            raise AgentError(
                f"Expected observations of {wrong.dtype}, as the environment returns them, got another kind of values."
            )
        raise AgentError(self._describe_mistake(obs))

    def _filled(self, obs: Any, parts: Mapping[str, Any]) -> Any:
        """Return observations with zeros for the unseen parts that they lack; `parts` are the leaves of their space."""
        given = dict(dotted_items(obs)) if isinstance(obs, Mapping) else {}
        known = next((path for path in parts if path in given and path != MASK), None)
        below = tuple(f"{path}." for path in self._unseen)
        missing = [path for path in parts if path not in given and f"{path}.".startswith(below)]
        if known is None or not missing:
            return obs
        rows = _to_array(given[known]).shape
        rows, filled = rows[: len(rows) - len(parts[known].shape)], tree_map(lambda leaf: leaf, dict(obs))
        for path in missing:
            set_key(filled, path, np.zeros((*rows, *parts[path].shape), parts[path].dtype))
        return filled

    def _describe_mistake(self, obs: Any) -> str:
        others = [space for space, *_ in self._forms if space is not self._space]
        forms = [_describe(space) for space in (self._space, *others)]
        if isinstance(obs, Mapping):
            found = [f"'{path}' {_describe_leaf(leaf)}" for path, leaf in dotted_items(obs)]
            got = ", ".join(found[:FEW]) or "an empty dict"
        else:
            got = f"{'shape ' * _has_numbers(_to_array(obs))}{_describe_leaf(obs)}"
        return f"Expected one observation, {' or '.join(forms)}, or a batch with one more leading dimension, got {got}."


def _batch(obs: Any, space: Any) -> tuple[Any, int | None] | None:
    """Return a batch, and N or None, if observations have the parts of a space; otherwise None."""
    if isinstance(space, Dict):
        if not isinstance(obs, Mapping) or obs.keys() != space.keys():
            return None
        parts = {key: part for key in space if (part := _batch(obs[key], space[key])) is not None}
        if len(parts) < len(space.spaces) or len({number for _, number in parts.values()}) > 1:
            return None
        return {key: part for key, (part, _) in parts.items()}, next(iter(parts.values()))[1]
    array = _to_array(obs)
    found = tuple(array.shape)
    if found == space.shape:
        return array[None], None
    return (array, found[0]) if found[1:] == space.shape and found and found[0] else None


def _to_array(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.detach()
    try:
        return np.asarray(leaf)
    except ValueError:  # a list whose parts have different lengths is no array
        return np.empty((), object)


def _is_float_for(leaf: Any, part: gymnasium.Space[Any], path: str) -> bool:
    """Return whether an array holds no numbers, or floats where its space holds none; masks may be floats."""
    if not _has_numbers(leaf):
        return True
    is_float = leaf.is_floating_point() if isinstance(leaf, torch.Tensor) else leaf.dtype.kind == "f"
    return is_float and part.dtype.kind != "f" and path != MASK  # type: ignore[union-attr]  # spaces of arrays


def _fit(batch: Any, space: Any, where: str) -> Any:
    """Return a batch in the types of its space; tensors of floats stay tensors.

    Raises:
        AgentError: a value is not in the space; `where` begins the message.
    """
    if isinstance(space, Dict):
        return {key: _fit(batch[key], part, f"{where}[{key!r}]") for key, part in space.items()}
    if isinstance(batch, torch.Tensor):
        tensor = batch.to(torch.from_numpy(np.empty(0, space.dtype)).dtype)
        if plain_array(space) and (tensor.isfinite().all() if tensor.is_floating_point() else tensor is batch):
            return tensor
        batch = (batch.double() if batch.is_floating_point() else batch).cpu().numpy()
    try:
        if where.endswith(f"[{MASK!r}]") and isinstance(space, MultiBinary):
            return read_mask(batch, f"{where} is")
        return fit(batch, space, where, batch.shape[:1])
    except EnvError as error:
        raise AgentError(str(error)) from error


def _has_numbers(array: Any) -> bool:
    return isinstance(array, torch.Tensor) or array.dtype.kind in "biuf"


def _describe_leaf(leaf: Any) -> str:
    """Return the shape of numbers; the type and the text of anything else."""
    array = _to_array(leaf)
    return str(list(array.shape)) if _has_numbers(array) else show(leaf)


def _describe(space: Any) -> str:
    if not isinstance(space, Dict):
        return f"an array of shape {list(space.shape)}"
    names = [f"'{path}' {list(part.shape)}" for path, part in dotted_items(space)]
    return f"a dict of {', '.join(names[:FEW])}{' and more' * (len(names) > FEW)}"


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
    or '.onnx'. The module takes no observations that the policy's actor does not see.
    """
    ending = os.path.splitext(path)[1]
    hidden = getattr(policy.model, "hidden_obs", ())
    seen: Any = leave_out(observation_space, hidden) if isinstance(observation_space, Dict) else observation_space
    obs = draw_observations(seen, TRIALS)
    output = policy.act(obs, explore=False)
    if list(tree_leaves(output.get("prev_state", {}))):  # QMIX without a memory returns an empty dict
        raise AgentError(
            "A recurrent policy cannot be exported: its actions depend on a state. Load it with ding_lite.load."
        )
    expected = units.to_env(tree_map(lambda leaf: leaf.numpy(), output["action"]))
    policy.model.requires_grad_(False)
    module = ActingModule(policy, units).eval()
    run = _run_pt2 if ending == ".pt2" else _run_onnx
    temporary = f"{os.path.splitext(path)[0]}.tmp{ending}"
    try:
        with _quiet():
            _write(module, tree_map(torch.from_numpy, obs), temporary)
            for number in (1, TRIALS):
                part = tree_map(lambda leaf: leaf[:number], obs)  # noqa: B023  (called at once)
                _compare(list(tree_leaves(expected)), run(temporary, part), number)
        os.replace(temporary, path)
    except AgentError:
        raise
    except OSError as error:
        raise AgentError(f"Cannot write '{path}': {describe_os_error(error)}.") from error
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


def draw_observations(space: gymnasium.Space[Any] | Mapping[str, Any], number: int) -> Any:
    """Draw observations `[number, ...]` of a space, or of nested dicts of spaces, at random, the same ones each time.

    Floats are normally distributed and clipped to their bounds. A mask allows at least its first action.
    """
    rng = np.random.default_rng(0)

    def draw(part: Any, key: str) -> Any:
        if isinstance(part, Mapping):  # a Dict is one, too
            return {name: draw(one, name) for name, one in part.items()}
        shape = (number, *(part.shape or ()))
        if isinstance(part, Box) and np.issubdtype(part.dtype, np.floating):
            return np.clip(rng.normal(size=shape), part.low, part.high).astype(part.dtype)
        low, high = (end.astype(np.int64) for end in bounds_of(part))
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


def _write(module: nn.Module, obs: Any, path: str) -> None:
    """Write a module for any N; `path` ends with '.pt2' or '.onnx'."""
    shapes = tree_map(lambda _: {0: torch.export.Dim.DYNAMIC}, obs)
    with torch.no_grad():
        program = torch.export.export(module, (obs,), dynamic_shapes=(shapes,), strict=False)
    if path.endswith(".pt2"):
        torch.export.save(program, path)
        return
    names = [name for name, _ in dotted_items({"obs": obs})]
    torch.onnx.export(program, (), path, input_names=names, dynamo=True, external_data=False, verbose=False)


def _run_pt2(path: str, obs: Any) -> list[np.ndarray]:
    action = torch.export.load(path).module()(tree_map(torch.from_numpy, obs))
    return [leaf.detach().numpy() for leaf in tree_leaves(action)]


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
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
