"""The built-in models, and what all of them can do, for tests of what they share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.utils import MODEL_REGISTRY
from ding_lite.utils.tree import tree_leaves, tree_map

HYBRID = dict(action_type_shape=2, action_args_shape=3)
HYBRID_MODELS = ("hybrid_qac", "pdqn")
# The built-in models with an encoder, by their registered names; `seams` and other tests register their own.
MODELS = (
    *("acer", "bc", "bdq", "c51dqn", "continuous_bc", "continuous_qac", "continuous_qvac", "discrete_bc"),
    *("discrete_qac", "dqn", "drqn", "fqf", "hybrid_qac", "iqn", "pdqn", "pg", "qac_dist", "qrdqn"),
    *("rainbowdqn", "sqn", "vac"),
)


def build(name: str, **model: Any) -> nn.Module:
    """Return a model; if `model` lacks an action shape, it has 3 actions, or the sizes of `HYBRID`."""
    model.setdefault("action_shape", HYBRID if name in HYBRID_MODELS else 3)
    if name in ("continuous_qac", "continuous_qvac"):
        model.setdefault("action_space", "reparameterization")
    return MODEL_REGISTRY.find(name)(**model)


def run(model: nn.Module, obs: Any) -> list[Tensor]:
    """Return all numbers that a model computes for observations `[B, ...]`, in each of its modes."""
    size = len(next(tree_leaves(obs)))
    args, logit = torch.rand(size, 3), torch.rand(size, 2)
    critic = {"obs": obs, "action": {"action_args": args}, "logit": logit}
    inputs: dict[str, Any] = {"compute_discrete": {"state": obs, "action_args": args}}
    name = type(model).__name__
    if name in ("QAC", "QVAC", "QACDIST", "HybridQAC"):
        inputs["compute_critic"] = critic if name == "HybridQAC" else {"obs": obs, "action": args}
    modes: tuple[str, ...] = getattr(model, "modes", ())
    if modes:
        outputs: Any = {mode: model(inputs.get(mode, obs), mode=mode) for mode in modes}
    else:
        outputs = model(tree_map(lambda leaf: torch.stack([leaf, leaf]), obs) if name == "DRQN" else obs)
    return [leaf for leaf in tree_leaves(outputs) if leaf.requires_grad]


def backward(outputs: list[Tensor]) -> None:
    """Compute the gradients of a sum in which every number has another weight."""
    torch.stack([(output * torch.randn_like(output)).sum() for output in outputs]).sum().backward()
