"""The agent of an rpc run: owns everything except the environments, which the observers play."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ding_lite.entry.experiment import Source
from ding_lite.entry.reporter import describe_collecting, describe_updates
from ding_lite.entry.rpc.link import RPCLink, carried, result
from ding_lite.entry.rpc.observer import find_encoder, flatten, unflatten
from ding_lite.entry.setup import RunSetup
from ding_lite.envs import derive_seeds
from ding_lite.policy import Policy
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.registry import ConfigError, UserError
from ding_lite.utils.tree import tree_leaves, tree_map


class SplitEncoder:
    """Runs the forward pass of the agent's encoder on the observers, which hold the observations.

    It replaces the encoder's `forward`, so models, losses and acting do not change. Outside the contexts below the
    encoder encodes observations as usual. Shapes: B samples of a batch, F features.

    Args:
        encoder: of the agent's model; the observers use copies of its parameters.
        link: to the observers.
    """

    def __init__(self, encoder: nn.Module, link: RPCLink) -> None:
        self._link, self._encoder, self.parameters = link, encoder, list(encoder.parameters())
        self._device = self.parameters[0].device
        self._forward: Callable[[Any], Tensor] = encoder.forward
        self.pending = False  # whether a forward pass waits for its backward pass
        encoder.forward = lambda obs: self._forward(obs)

    def close(self) -> None:
        """Restore the encoder's original `forward`."""
        del self._encoder.forward

    @contextmanager
    def _does(self, forward: Callable[[Any], Tensor]) -> Iterator[None]:
        before, self._forward = self._forward, forward
        try:
            yield
        finally:
            self._forward = before

    def given(self) -> Any:
        """Return a context manager in which the encoder receives features, which it returns unchanged."""
        return self._does(lambda features: features)

    def remote(self, sizes: list[int]) -> Any:
        """Return a context manager in which the encoder receives places `[B]` of samples, which the observers encode.

        Places number the samples of the first observer, then those of the second, and so on.

        Args:
            sizes: number of samples that each observer holds.
        """
        self._ends = torch.tensor(sizes).cumsum(0)
        self._starts = self._ends - torch.tensor(sizes)
        return self._does(self._encode_remotely)

    def _encode_remotely(self, place_B: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self.fetch(place_B)[0].to(self._device)
        features: Tensor = _Encode.apply(self, place_B, *self.parameters)  # type: ignore[no-untyped-call]  # torch's
        return features.to(self._device)

    def fetch(self, place_B: Tensor) -> tuple[Tensor, list[int]]:
        """Return features `[B, F]` of the samples at these places, and the observers that computed them."""
        place_B = place_B.cpu().contiguous()
        owner_B = torch.bucketize(place_B, self._ends, right=True)
        order_B = owner_B.argsort(stable=True)
        counts = owner_B.bincount(minlength=len(self._ends)).tolist()
        parts = (place_B - self._starts[owner_B])[order_B].split(counts)
        flat = flatten(self.parameters)
        asked = [(rank, part) for rank, part in zip(self._link.observers, parts, strict=True) if len(part)]
        answers = [self._link.ask_now(rank, "encode", flat, part) for rank, part in asked]
        features = torch.cat([result(answer) for answer in answers])
        return features[order_B.argsort()], [rank for rank, _ in asked]

    def gradients(self, context: int, asked: list[int], features: Tensor, gradient: Tensor) -> list[Tensor]:
        """Return the encoder's gradients, summed over observers, given the gradient of the features `[B, F]`."""
        with torch.enable_grad():
            root = (features * gradient).sum()  # its derivative with respect to the features is their gradient
        with carried():
            dist_autograd.backward(context, [root])
        answers = [self._link.ask_now(rank, "gradient", context) for rank in asked]
        flat = torch.stack([result(answer) for answer in answers]).sum(0).to(self._device)
        return unflatten(flat, self.parameters)


class _Encode(torch.autograd.Function):
    """The observers' forward and backward passes as one node of the agent's autograd graph.

    To the agent's autograd, the features are a function of the encoder's parameters, so loss, optimizer and checks are
    the same as for a model in one process.
    """

    @staticmethod
    def forward(ctx: Any, split: SplitEncoder, place_B: Tensor, *parameters: Tensor) -> Tensor:
        if split.pending:
            raise ConfigError(
                "The policy's loss calls the model's encoder twice. With observers it may call it once: join the "
                "observations first."
            )
        split.pending = True
        ctx.split, ctx.context = split, dist_autograd.context()
        ctx.number = ctx.context.__enter__()
        with torch.enable_grad():
            ctx.features, ctx.asked = split.fetch(place_B)
        return ctx.features.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.split.gradients(ctx.number, ctx.asked, ctx.features, gradient)
        ctx.context.__exit__(None, None, None)
        ctx.split.pending = False
        return None, None, *gradients


class RemoteCollector:
    """Lets all observers collect, and chooses their actions meanwhile. Shapes: M samples of all observers.

    Args:
        link: to the observers.
        policy: the agent's policy.
        encoder: the agent's.
        seeds: for drawing actions, one per observer, so that the draws do not depend on the other observers' speed.
        guard: says whether the agent was asked to end; signals of the observers are passed on to it.

    Attributes:
        envstep, episode_count, interrupted: as in `SampleCollector`, for all observers together.
        sizes: number of samples that each observer holds.
    """

    def __init__(
        self,
        link: RPCLink,
        policy: Policy,
        encoder: SplitEncoder,
        seeds: list[int],
        guard: InterruptGuard,
    ) -> None:
        self._link, self._policy, self._encoder, self._guard = link, policy, encoder, guard
        self._draws = [torch.Generator().manual_seed(seed).get_state() for seed in seeds]
        self.envstep, self.episode_count, self.interrupted = 0, 0, False
        self.sizes = [0] * len(seeds)

    def collect(self) -> tuple[dict[str, Any], dict[str, float]]:
        """Return samples `[M, ...]`, whose `obs` are places (see `SplitEncoder.remote`), and sums of the counts."""
        self._policy.begin_collect(self.envstep)  # sets the agent's schedules; observers set their own
        flat = flatten(self._encoder.parameters)
        answers = [self._link.ask(rank, "collect", flat, self.envstep) for rank in self._link.observers]
        own = torch.get_rng_state()
        for request in self._link.requests_until(answers):
            heartbeat("collect")
            request.answer.set_result(self._act(*request.args))
        torch.set_rng_state(own)
        parts, counts = zip(*map(result, answers), strict=True)
        self.sizes = [len(next(tree_leaves(part))) for part in parts]
        samples = tree_map(lambda *leaves: torch.cat(leaves), *parts)
        total = {key: sum(count[key] for count in counts) for key in counts[0] if key != "signum"}
        total["duration"] /= len(counts)
        self.envstep += int(total["env_step"])
        self.episode_count += int(total["episode"])
        signum = max(int(count["signum"]) for count in counts)
        self.interrupted = bool(signum) or self._guard.requested
        self._guard.signum = self._guard.signum or signum
        return samples | {"obs": torch.arange(sum(self.sizes))}, total

    def _act(self, observer: int, features: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
        torch.set_rng_state(self._draws[observer - 1])
        with self._encoder.given():
            output = self._policy.act(features, **kwargs)
        self._draws[observer - 1] = torch.get_rng_state()
        return tree_map(Tensor.cpu, output)

    def set_attr(self, name: str, values: Any) -> None:
        """Raise an error, because the observers own the environments.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"run.collector.set_attr('{name}', ...): the environments of serial_pipeline_rpc belong to the observers, "
            "where it cannot be called: use serial_pipeline_onpolicy."
        )

    def state_dict(self) -> dict[str, Any]:
        return {"envstep": self.envstep, "episode_count": self.episode_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.envstep, self.episode_count = state["envstep"], state["episode_count"]

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of the observers' environments, and of the random generators of actions."""
        answers = [self._link.ask(rank, "save") for rank in self._link.observers]
        return {"observers": [result(answer) for answer in answers], "draws": self._draws}

    def load_local_state_dict(self, state: dict[str, Any]) -> list[str]:
        """Restore `local_state_dict`; return the environments, `observer:environment`, that could not be restored."""
        if len(state["observers"]) != len(self.sizes):
            return [f"of all {len(state['observers'])} observers, as there are {len(self.sizes)} now"]
        self._draws = state["draws"]
        parts = zip(self._link.observers, state["observers"], strict=True)
        answers = [(rank, self._link.ask(rank, "restore", part)) for rank, part in parts]
        return [f"{rank}:{number}" for rank, answer in answers for number in result(answer)]


def create_remote(link: RPCLink, setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack) -> Source:
    """Return a source in which the observers play; closing `stack` restores the encoder's forward pass."""
    cfg, count = setup.cfg, len(link.observers)
    encoder = SplitEncoder(find_encoder(policy), link)
    stack.callback(encoder.close)
    seeds = [derive_seeds(cfg.seed, rank, "draws", n=1)[0] for rank in link.observers]
    collector = RemoteCollector(link, policy, encoder, seeds, guard)
    lines = {
        "ranks": f"1 agent, {count} observers (rpc)",
        **describe_collecting(cfg, "an observer", count),
        "batch": f"{cfg.policy.learn.batch_size} of all observers, {describe_updates(cfg)}",
    }
    return Source(
        collector,
        lines,
        total=setup.limits["max_env_step"],
        counts=lambda: {"observers": count},
        learning=lambda: encoder.remote(collector.sizes),
        plays=False,
    )
