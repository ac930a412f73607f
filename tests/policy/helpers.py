"""Policies and batches for the tests of policies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.config import compile_config
from ding_lite.policy import DQNPolicy, Policy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.algorithms import ALGORITHMS, policy_keys, row
from tests.distributed import parity

OBS, ACTIONS = 5, 3
IMAGE = [4, 36, 36]
OURS = sorted(ALGORITHMS)
KINDS = {name: parity.kinds_of(POLICY_REGISTRY.find(name)) for name in OURS}  # of actions


class Formula(nn.Module):
    """A network that is a function of itself, with these parameters and modules, and of its inputs."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part if isinstance(part, nn.Module) else nn.Parameter(torch.tensor(part)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def compile_for(name: str, *overrides: str) -> EasyDict:
    """Compile the config of a registered policy for the first kind of action that it supports; return all of it."""
    return parity.compile_problem(name, KINDS[name][0], [*policy_keys(row(name).short), *overrides])


def batches_of(policy: Policy, cfg: EasyDict, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the batches that a policy learns from after one collect of this block."""
    samples = policy.to_samples(block)
    if policy.learns_from == "collect":
        yield from policy.batches(samples)
    else:
        yield parity.replay_everything(cfg, samples, parity.NUM_ENVS)


def build_policy(
    kind: str, network: dict[str, Any], *overrides: str, model: nn.Module | None = None, **policy: Any
) -> Any:
    """Build a policy with this network, unless a model is given; overrides without their `policy.`."""
    main = dict(policy=policy | dict(model={} if model else network))
    create = dict(env=dict(env_id="CartPole-v1"), policy=dict(type=kind))
    cfg = compile_config(
        (main, create), model_given=model is not None, overrides=[f"policy.{item}" for item in overrides]
    )
    return POLICY_REGISTRY.find(kind)(cfg.policy, model)


def make_cfg(*overrides: str, model_given: bool = False, kind: str = "dqn", image: bool = False) -> EasyDict:
    """Compile the config of a small policy; overrides without their `policy.`."""
    network = dict(encoder_hidden_size_list=[4, 6, 6, 16] if image else [16, 8], obs_shape=IMAGE if image else OBS)
    main = dict(policy=dict(nstep=2, model={} if model_given else {**network, "action_shape": ACTIONS}))
    create = dict(env=dict(env_id="CartPole-v1"), policy=dict(type=kind))
    return compile_config(
        (main, create), model_given=model_given, overrides=[f"policy.{item}" for item in overrides]
    ).policy


def make_policy(*overrides: str, model: nn.Module | None = None, kind: str = "dqn", image: bool = False) -> DQNPolicy:
    """Build a small policy; overrides without their `policy.`."""
    return POLICY_REGISTRY.find(kind)(
        make_cfg(*overrides, model_given=model is not None, kind=kind, image=image), model
    )


def target_of(policy: Policy) -> dict[str, Tensor]:
    """Return the target network's parameters and buffers, as a checkpoint has them."""
    return policy.state_dict()["target_model"]


def last_gradient(policy: Policy) -> Tensor:
    """Return a copy of the gradient that the last step left, as one vector."""
    return torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


def make_batch(
    size: int,
    seed: int = 0,
    weighed: bool = False,
    image: bool = False,
    dtype: torch.dtype = torch.float32,
    obs: int = OBS,
) -> dict[str, Any]:
    """Return what a replay buffer would, with discrete actions."""
    gen = torch.Generator().manual_seed(seed)

    def observation() -> Tensor:
        if image:
            return torch.randint(256, (size, *IMAGE), dtype=torch.uint8, generator=gen)
        return torch.randn(size, obs, generator=gen).to(dtype)

    batch = {
        "obs": observation(),
        "next_obs": observation(),
        "action": torch.randint(ACTIONS, (size,), generator=gen),
        "reward": torch.randn(size, generator=gen).to(dtype) * 3,
        "done": torch.rand(size, generator=gen) < 0.3,
        "value_gamma": torch.where(torch.rand(size, generator=gen) < 0.2, 0.99, 0.99**2).to(dtype),
        "index": torch.arange(size),
    }
    if weighed:
        batch["weight"] = torch.rand(size, generator=gen).to(dtype)
    return batch


def parameter_hash(module: nn.Module | dict[str, Any]) -> str:
    """Return a hash of every bit of a module's parameters and buffers."""
    state = module.state_dict() if isinstance(module, nn.Module) else module
    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(name.encode())
        digest.update(value.detach().contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def same(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def same_tree(left: Any, right: Any) -> bool:
    """Return whether nested dicts and lists, and the tensors and numbers in them, are equal."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_tree(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same_tree, left, right))
    return torch.equal(left, right) if isinstance(left, Tensor) else bool(left == right)


def is_out(mask: Tensor) -> Tensor:
    """Return which of two agents is out of the game, `[..., 2]`: it has one action left, and the other one more."""
    one = mask.bool().sum(-1) == 1
    return one & ~one.flip(-1)
