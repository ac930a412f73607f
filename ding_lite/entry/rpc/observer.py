"""An observer of an rpc run: plays its own environments, and sends only features of the observations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed.autograd as dist_autograd
from torch import Tensor, nn

from ding_lite.entry.rpc.link import AGENT, RPCLink, result
from ding_lite.entry.setup import RunSetup, policy_process
from ding_lite.policy import Policy
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map


class Observer:
    """Environments, a replica of the observation network, and the observations of the last collect.

    The agent calls its methods. Shapes: M samples of this observer, B of them in a batch, F features, N environments.

    Args:
        setup: of the run.
        rank: of this process; the environments' seeds depend on it.
        stack: closes the environments.

    Raises:
        ConfigError: the policy's model does not consist of an encoder and a head.
    """

    def __init__(self, setup: RunSetup, rank: int, stack: ExitStack) -> None:
        self._rank = rank
        self._policy = stack.enter_context(policy_process(setup, rank, "policy", fields=("collect",)))
        self._encoder = find_encoder(self._policy)
        del self._policy.model.head  # the agent's
        self._parameters = list(self._encoder.parameters())
        self._held: Any = None
        self._guard = stack.enter_context(InterruptGuard(rank))
        self._collector = setup.create_collector(self, rank, lambda: self._guard.requested, stack)

    def serve(self, link: RPCLink) -> int | str | None:
        """Answer the agent's requests until the run has ended; return the exit status that the agent sends."""
        self._link = link
        for request in link.requests():
            if request.method == "end":
                request.answer.set_result(None)
                return request.args[0]
            request.answer.set_result(getattr(self, request.method)(*request.args))
        raise AssertionError

    def collect(self, parameters: Tensor, envstep: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Play with the encoder's `parameters` at the global env step; return samples without observations."""
        self._load(parameters)
        self._collector.envstep = envstep
        block, figures = self._collector.collect()
        samples = self._policy.to_samples(block)
        self._held = samples.pop("obs")
        return samples, figures | {"signum": self._guard.signum or 0}

    def save(self) -> dict[str, Any]:
        """Return the state of the environments."""
        return self._collector.local_state_dict()

    def restore(self, state: dict[str, Any]) -> list[int]:
        """Restore what `save` returned; return the environments that start new episodes instead."""
        return self._collector.load_local_state_dict(state)

    def encode(self, parameters: Tensor, index_B: Tensor) -> Tensor:
        """Return features `[B, F]` of the samples at `index_B` of the last collect, with gradients."""
        self._load(parameters)
        self._encoder.train()
        return self._features(tree_map(lambda leaf: leaf[index_B], self._held))

    def gradient(self, context: int) -> Tensor:
        """Return the encoder's gradient, flat, which backward has left in a context of distributed autograd."""
        found = dist_autograd.get_gradients(context)
        return flatten([found.get(parameter, torch.zeros_like(parameter)) for parameter in self._parameters])

    # What the collector calls.

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        """Begin a collect, see `Policy.begin_collect`."""
        return self._policy.begin_collect(envstep)

    def to_row(self, obs: Any, output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        """Return what the rollout block stores for one step."""
        return self._policy.to_row(obs, output, timestep)

    def reset(self, env_id: np.ndarray | None = None) -> None:
        """Forget the running episodes of these environments."""
        self._policy.reset(env_id)

    def act(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        """Send features of observations `[N, ...]` and return the agent's `action` `[N]`: one request a step."""
        self._encoder.eval()  # acting is deterministic in the observation
        with torch.inference_mode():
            features = self._features(obs)
        return result(self._link.ask(AGENT, "act", self._rank, features, kwargs))

    def _features(self, obs: Any) -> Tensor:
        with self._policy._autocast():
            return self._encoder(self._policy._to_device(obs)).cpu()

    @torch.no_grad()
    def _load(self, parameters: Tensor) -> None:
        for own, new in zip(self._parameters, unflatten(parameters, self._parameters), strict=True):
            own.copy_(new)


def find_encoder(policy: Policy) -> nn.Module:
    """Return the encoder of a policy's model.

    Raises:
        ConfigError: there is no encoder, no head, or the encoder has buffers, which would differ between observers.
    """
    model = policy.model
    found = [name for name, _ in model.named_children()]
    what = f"policy.model '{type(model).__name__}'"
    if not {"encoder", "head"} <= set(found):
        raise ConfigError(
            f"{what} cannot be split between observers and an agent: expected an 'encoder' of observations and a "
            f"'head', got {', '.join(found)}. Use a policy such as 'pg', or train it with serial_pipeline_onpolicy."
        )
    encoder = model.get_submodule("encoder")
    buffers = [name for name, _ in encoder.named_buffers()]
    if buffers:
        raise ConfigError(
            f"The encoder of {what} has buffers ({', '.join(buffers)}), which would differ between observers: use a "
            "normalisation without buffers, such as LayerNorm."
        )
    return encoder


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors as one tensor on the CPU, in logical order, whatever their strides."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu()


def unflatten(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors that `flatten` joined, with the shapes of `like`."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]
