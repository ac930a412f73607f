"""The pipeline of one agent, which owns everything except the environments, and of observers, which play these.

An observer sends only features of its observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
from easydict import EasyDict
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ding_lite.entry.callbacks import Callback
from ding_lite.entry.experiment import Experiment, NoEnvironments, Source
from ding_lite.entry.pipelines import refuse_normalization
from ding_lite.entry.reporter import describe_collecting, describe_updates
from ding_lite.entry.rpc.link import AGENT, RPCLink, carried, result
from ding_lite.entry.setup import RunSetup, policy_process, prepare_run
from ding_lite.envs import derive_seeds
from ding_lite.policy import Policy
from ding_lite.utils.key import declared_keys
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.ranks.ranks import alone, get_rank, get_world_size
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.schedule import find_schedules
from ding_lite.utils.tree import tree_leaves, tree_map


class SplitEncoder:
    """Runs the forward pass of the agent's encoder on the observers, which hold the observations.

    Its contexts replace the encoder's `forward`, so models, losses and acting do not change. Outside them the encoder
    encodes observations as usual. Shapes: B samples of a batch, F features.
    """

    def __init__(self, encoder: nn.Module, link: RPCLink) -> None:
        self._encoder, self.parameters, self.link = encoder, list(encoder.parameters()), link
        self.pending = False  # whether a forward pass waits for its backward pass

    @contextmanager
    def does(self, forward: Callable[[Any], Tensor]) -> Iterator[None]:
        """Return a context manager in which the encoder computes something else."""
        self._encoder.forward = forward
        try:
            yield
        finally:
            del self._encoder.forward

    def remote(self, sizes: list[int]) -> Any:
        """Return a context manager in which the encoder receives places `[B]` of samples, which the observers encode.

        Places number the samples of the first observer, then those of the second; `sizes` has each observer's number.
        """
        self._ends = torch.tensor(sizes).cumsum(0)
        self._starts = self._ends - torch.tensor(sizes)
        return self.does(self._encode_remotely)

    def _encode_remotely(self, place_B: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self.fetch(place_B)[0].to(self.parameters[0].device)
        features: Tensor = _Encode.apply(self, place_B, *self.parameters)  # type: ignore[no-untyped-call]  # torch's
        return features.to(self.parameters[0].device)

    def fetch(self, place_B: Tensor) -> tuple[Tensor, list[int]]:
        """Return features `[B, F]` of the samples at these places, and the observers that computed them."""
        place_B, flat = place_B.cpu().contiguous(), flatten(self.parameters)
        owner_B = torch.bucketize(place_B, self._ends, right=True)
        rows = {rank: (owner_B == rank - 1).nonzero().flatten() for rank in (owner_B.unique() + 1).tolist()}
        parts = {rank: place_B[row] - self._starts[rank - 1] for rank, row in rows.items()}
        answers = [self.link.ask_now(rank, "encode", flat, part) for rank, part in parts.items()]
        features = torch.cat([result(answer) for answer in answers])
        return features[torch.cat(list(rows.values())).argsort()], list(rows)


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
        split = ctx.split
        with torch.enable_grad():
            root = (ctx.features * gradient).sum()  # its derivative with respect to the features is their gradient
        with carried():
            dist_autograd.backward(ctx.number, [root])
        answers = [split.link.ask_now(rank, "gradient", ctx.number) for rank in ctx.asked]
        flat = torch.stack([result(answer) for answer in answers]).sum(0).to(split.parameters[0].device)
        ctx.context.__exit__(None, None, None)
        split.pending = False
        return None, None, *unflatten(flat, split.parameters)


class RemoteCollector(NoEnvironments):
    """Lets all observers collect, and chooses their actions meanwhile. Shapes: M samples of all observers.

    The counts are those of all observers; `sizes` has the number of samples that each holds. Actions are drawn with one
    generator per observer, so that the draws do not depend on the other observers' speed. A signal to an observer is
    passed on to the agent's guard.
    """

    reason = (
        "the environments of serial_pipeline_rpc belong to the observers, where it cannot be called: use "
        "serial_pipeline_onpolicy"
    )

    def __init__(self, encoder: SplitEncoder, policy: Policy, seed: int, guard: InterruptGuard) -> None:
        self._link, self._policy, self._encoder, self._guard = encoder.link, policy, encoder, guard
        seeds = [derive_seeds(seed, rank, "draws", n=1)[0] for rank in self._link.observers]
        self._draws = [torch.Generator().manual_seed(one).get_state() for one in seeds]
        self.envstep, self.episode_count, self.interrupted = 0, 0, False
        self.sizes = [0] * len(seeds)

    def collect(self) -> tuple[dict[str, Any], dict[str, float]]:
        """Return samples `[M, ...]`, whose `obs` are places (see `SplitEncoder.remote`), and sums of the counts."""
        self._policy.begin_collect(self.envstep)  # sets the agent's schedules; observers set their own
        flat = flatten(self._encoder.parameters)
        answers = [self._link.ask(rank, "collect", flat, self.envstep) for rank in self._link.observers]
        own = torch.get_rng_state()
        for _, args, answer in self._link.requests(answers):
            heartbeat("collect")
            answer.set_result(self._act(*args))
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
        with self._encoder.does(lambda given: given):
            output = self._policy.act(features, **kwargs)
        self._draws[observer - 1] = torch.get_rng_state()
        return tree_map(Tensor.cpu, output)

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
    """Return a source in which the observers play."""
    cfg, count = setup.cfg, len(link.observers)
    encoder = SplitEncoder(find_encoder(policy), link)
    collector = RemoteCollector(encoder, policy, cfg.seed, guard)
    lines = {
        "ranks": f"1 agent, {count} observers (rpc)",
        **describe_collecting(cfg, "an observer", count),
        "batch": f"{cfg.policy.learn.batch_size} of all observers, {describe_updates(cfg)}",
    }
    options: Any = {"counts": lambda: {"observers": count}, "learning": lambda: encoder.remote(collector.sizes)}
    return Source(collector, lines, setup.limits["max_env_step"], plays=False, **options)


class Observer:
    """Environments, a replica of the observation network, and the observations of the last collect.

    The agent calls its methods; `stack` closes the environments. Shapes: B samples in a batch, F features, N
    environments.
    """

    def __init__(self, setup: RunSetup, rank: int, stack: ExitStack) -> None:
        self._rank = rank
        self._policy = stack.enter_context(policy_process(setup, rank, "policy", fields=("collect",)))
        self._encoder = find_encoder(self._policy)
        del self._policy.model.head  # the agent's
        self._policy.act = self._act  # type: ignore[assignment,method-assign]  # what the collector calls
        self._parameters = list(self._encoder.parameters())
        self._held: Any = None
        self._guard = stack.enter_context(InterruptGuard(rank))
        self._collector = setup.create_collector(self._policy, rank, lambda: self._guard.requested, stack)
        self.save, self.restore = self._collector.local_state_dict, self._collector.load_local_state_dict

    def serve(self, link: RPCLink) -> int | str | None:
        """Answer the agent's requests until the run has ended; return the exit status that the agent sends."""
        self._link = link
        for method, args, answer in link.requests():
            if method == "end":
                answer.set_result(None)
                return args[0]
            answer.set_result(getattr(self, method)(*args))
        raise AssertionError

    def collect(self, parameters: Tensor, envstep: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Play with the encoder's `parameters` at the global env step; return samples without observations."""
        self._load(parameters)
        self._collector.envstep = envstep
        block, figures = self._collector.collect()
        samples = self._policy.to_samples(block)
        self._held = samples.pop("obs")
        return samples, figures | {"signum": self._guard.signum or 0}

    def encode(self, parameters: Tensor, index_B: Tensor) -> Tensor:
        """Return features `[B, F]` of the samples at `index_B` of the last collect, with gradients."""
        self._load(parameters)
        self._encoder.train()
        return self._features(tree_map(lambda leaf: leaf[index_B], self._held))

    def gradient(self, context: int) -> Tensor:
        """Return the encoder's gradient, flat, which backward has left in a context of distributed autograd."""
        found = dist_autograd.get_gradients(context)
        return flatten([found.get(parameter, torch.zeros_like(parameter)) for parameter in self._parameters])

    def _act(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
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


def serial_pipeline_rpc(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy | None:
    """Train an on-policy policy with one agent (rank 0) and observers (all other ranks), over torch.distributed.rpc.

    Each observer plays its own `env.collector_env_num` environments and encodes the observations; the agent owns the
    head, chooses the actions and learns. Observations never leave their observer. `policy.collect.n_episode` applies to
    each observer, `policy.learn.batch_size` to all together.

    Arguments and errors are those of `serial_pipeline`. Every rank calls this function, inside `DDPContext`.

    Returns:
        The policy on the agent, None on the observers.

    Raises:
        ConfigError: there is only one process, or the model does not consist of an encoder and a head.
    """
    rank, limits = get_rank(), {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    if get_world_size() < 2:
        raise ConfigError(
            "serial_pipeline_rpc needs an agent and at least one observer, but this is the only process: start it with "
            "'torchrun --nproc_per_node=3', or 'ding_lite -m rpc --nproc 3'."
        )
    setup = prepare_run(
        input_cfg,
        seed,
        env_setting,
        overrides=overrides,
        pipeline="serial_pipeline_rpc",
        trains="serial_pipeline_onpolicy",
        limits=limits,
    )
    _check_schedules(setup.cfg.policy)
    refuse_normalization(setup.cfg, "serial_pipeline_rpc", "no process sees the observations of all observers")
    with alone():
        if rank != AGENT:
            _observe(setup, rank)
            return None
        return _lead(setup, callbacks)


def _check_schedules(policy: EasyDict) -> None:
    """Raise `ConfigError` if a number that observers may use changes with a count that they do not know."""
    for path, schedule in find_schedules(policy, declared_keys(POLICY_REGISTRY.find(policy.type))).items():
        if not path.startswith(("learn.", "eval.")) and schedule.by != "env_step":
            raise ConfigError(
                f"policy.{path}.by: expected 'env_step', got '{schedule.by}', because the observers of "
                "serial_pipeline_rpc count nothing else."
            )


def _lead(setup: RunSetup, callbacks: Sequence[Callback]) -> Policy:
    """Run as the agent. At the end of the run, unless an error ends it, tell the observers."""
    status: Any = 0
    with RPCLink(None) as link:
        try:
            with (
                policy_process(setup, get_rank(), "policy") as policy,
                Experiment(setup, policy, partial(create_remote, link), callbacks=callbacks) as experiment,
            ):
                while not experiment.finished():
                    if experiment.evaluate():
                        break
                    samples = experiment.collect()
                    experiment.learn(experiment.policy.batches(samples))
        except SystemExit as end:
            status = end.code
        for answer in [link.ask(rank, "end", status) for rank in link.observers]:
            result(answer)
    if status:
        raise SystemExit(status)
    return experiment.policy


def _observe(setup: RunSetup, rank: int) -> None:
    """Run as an observer, until the agent says that the run has ended."""
    with ExitStack() as stack:
        observer = Observer(setup, rank, stack)
        with RPCLink(observer) as link:
            status = observer.serve(link)
    if status:
        raise SystemExit(status if isinstance(status, int) else 1)


def find_encoder(policy: Policy) -> nn.Module:
    """Return the encoder of a policy's model.

    Raises:
        ConfigError: there is no encoder, no head, or the encoder has buffers, which would differ between observers.
    """
    found = dict(policy.model.named_children())
    what = f"policy.model '{type(policy.model).__name__}'"
    if not {"encoder", "head"} <= set(found):
        raise ConfigError(
            f"{what} cannot be split between observers and an agent: expected an 'encoder' of observations and a "
            f"'head', got {', '.join(found)}. Use a policy such as 'pg', or train it with serial_pipeline_onpolicy."
        )
    buffers = [name for name, _ in found["encoder"].named_buffers()]
    if buffers:
        raise ConfigError(
            f"The encoder of {what} has buffers ({', '.join(buffers)}), which would differ between observers: use a "
            "normalisation without buffers, such as LayerNorm."
        )
    return found["encoder"]


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors as one tensor on the CPU, in logical order, whatever their strides."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu()


def unflatten(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors that `flatten` joined, with the shapes of `like`."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]
