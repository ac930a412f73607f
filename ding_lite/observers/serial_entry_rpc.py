"""The pipeline of one agent, which owns everything except the environments, and of observers, which play these.

An observer sends only features of its observations. The two ask each other over torch.distributed.rpc: a request calls
a method of the other process's service. Most are answered by its main thread (`ask`), where an error ends the process
like any other error. Requests that are part of distributed autograd are answered by a thread of rpc (`ask_now`).

Shapes: B samples of a batch, M samples of all observers, N environments, F features.
"""

from __future__ import annotations

import queue
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed import rpc
from torch.distributed.rendezvous import register_rendezvous_handler
from torch.futures import Future

from ding_lite.envs import derive_seeds
from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.run.experiment import Experiment, NoEnvironments, Source
from ding_lite.run.pipelines import refuse_options
from ding_lite.run.setup import RunSetup, policy_process, prepare_run
from ding_lite.run.summary import describe_collecting, describe_updates
from ding_lite.torch_utils.data import Output
from ding_lite.torch_utils.switches import autocast
from ding_lite.utils.ranks.collectives import alone, get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import heartbeat, waiting
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.ranks.launch_environment import read_seconds
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import find_schedules
from ding_lite.utils.tree import tree_leaves, tree_map


class SplitEncoder:
    """Runs the forward pass of the agent's encoder on the observers, which hold the observations.

    Its contexts replace the encoder's `forward`, so models, losses and acting do not change.
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

    def values(self) -> list[Tensor]:
        """Return the values of the parameters, on the CPU."""
        return [parameter.detach().cpu() for parameter in self.parameters]

    def encode_remotely(self, place_B2: Tensor) -> Tensor:
        """Return features `[B, F]` of samples, which the observers encode.

        A place is the rank of an observer and the sample's number there: `[B, 2]`.
        """
        if torch.is_grad_enabled():
            features: Tensor = _Encode.apply(self, place_B2, *self.parameters)  # type: ignore[no-untyped-call]  # torch's
        else:
            features, _ = self.fetch(place_B2)
        return features.to(self.parameters[0].device)

    def fetch(self, place_B2: Tensor) -> tuple[Tensor, list[int]]:
        """Return features `[B, F]` of the samples at these places, and the observers that computed them."""
        (owner_B, index_B), values = place_B2.cpu().unbind(1), self.values()
        rows = {rank: (owner_B == rank).nonzero().flatten() for rank in owner_B.unique().tolist()}
        answers = [self.link.ask_now(rank, "encode", values, index_B[row]) for rank, row in rows.items()]
        features = torch.cat([result(answer) for answer in answers])
        return features[torch.cat(list(rows.values())).argsort()], list(rows)


class _Encode(torch.autograd.Function):
    """The observers' forward and backward passes as one node of the agent's autograd graph.

    To the agent's autograd, the features are a function of the encoder's parameters, so loss, optimizer and checks are
    the same as for a model in one process.
    """

    @staticmethod
    def forward(ctx: Any, split: SplitEncoder, place_B2: Tensor, *parameters: Tensor) -> Tensor:
        if split.pending:
            raise ConfigError(
                "The policy's loss calls the model's encoder twice. With observers it may call it once: join the "
                "observations first."
            )
        split.pending = True
        ctx.split, ctx.context = split, dist_autograd.context()
        ctx.number = ctx.context.__enter__()
        with torch.enable_grad():
            ctx.features, ctx.asked = split.fetch(place_B2)
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
        parts = zip(*map(result, answers), strict=True)  # of each parameter, those of all observers
        gradients = [torch.stack(part).sum(0).to(split.parameters[0].device) for part in parts]
        ctx.context.__exit__(None, None, None)
        split.pending = False
        return None, None, *gradients


class RemoteCollector(NoEnvironments):
    """Lets all observers collect, and chooses their actions meanwhile. It has the sums of their counts.

    Actions are drawn with one generator per observer, so that the draws do not depend on the other observers' speed. A
    signal to an observer is passed on to the agent's guard.
    """

    reason = "the environments of serial_pipeline_rpc belong to the observers: use serial_pipeline_onpolicy"

    def __init__(self, encoder: SplitEncoder, policy: Policy, seed: int, guard: InterruptGuard) -> None:
        self._link, self._policy, self._encoder, self._guard = encoder.link, policy, encoder, guard
        seeds = [derive_seeds(seed, rank, "draws", n=1)[0] for rank in self._link.observers]
        self._draws = [torch.Generator().manual_seed(one).get_state() for one in seeds]

    def collect(self) -> tuple[dict[str, Any], dict[str, float]]:
        """Return samples `[M, ...]`, whose `obs` are places for `encode_remotely`, and sums of the counts."""
        self._policy.begin_collect(self.envstep)  # sets the agent's schedules; observers set their own
        observers, values = self._link.observers, self._encoder.values()
        answers = [self._link.ask(rank, "collect", values, self.envstep) for rank in observers]
        own = torch.get_rng_state()
        for _, args, answer in self._link.requests(answers):
            heartbeat("collect")
            answer.set_result(self._act(*args))
        torch.set_rng_state(own)
        parts, counts = zip(*map(result, answers), strict=True)
        sizes = [torch.arange(len(next(tree_leaves(part)))) for part in parts]
        places = [torch.cartesian_prod(torch.tensor([rank]), size) for rank, size in zip(observers, sizes, strict=True)]
        samples = tree_map(lambda *leaves: torch.cat(leaves), *parts)
        total = {key: sum(count[key] for count in counts) for key in counts[0] if key != "signum"}
        total["duration"] /= len(counts)
        self.envstep += int(total["env_step"])
        self.episode_count += int(total["episode"])
        signum = max(int(count["signum"]) for count in counts)
        self.interrupted = bool(signum) or self._guard.requested
        self._guard.signum = self._guard.signum or signum
        return samples | {"obs": torch.cat(places)}, total

    def _act(self, observer: int, features: Tensor, kwargs: dict[str, Any]) -> Output:
        torch.set_rng_state(self._draws[observer - 1])
        with self._encoder.does(lambda given: given):
            output = self._policy.act(features, **kwargs)
        self._draws[observer - 1] = torch.get_rng_state()
        return tree_map(Tensor.cpu, output)

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of the observers' environments, and of the random generators of actions."""
        answers = [self._link.ask(rank, "save") for rank in self._link.observers]
        return {"observers": [result(answer) for answer in answers], "draws": self._draws}

    def load_local_state_dict(self, state: dict[str, Any]) -> list[str]:
        """Restore `local_state_dict`; return the environments, `observer:environment`, that could not be restored."""
        if len(state["observers"]) != len(self._draws):
            return [f"of all {len(state['observers'])} observers, as there are {len(self._draws)} now"]
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
    counts, learning = (lambda: {"observers": count}), (lambda: encoder.does(encoder.encode_remotely))
    return Source(collector, lines, setup.limits["max_env_step"], plays=False, counts=counts, learning=learning)


class Observer:
    """Environments, a copy of the encoder, and the observations of the last collect; the agent calls its methods."""

    def __init__(self, setup: RunSetup, rank: int, stack: ExitStack) -> None:
        self._policy = stack.enter_context(policy_process(setup, rank, "policy", fields=("collect",)))
        self._encoder = find_encoder(self._policy)
        del self._policy.model.head  # the agent's
        self._policy.act = self._act  # type: ignore[assignment,method-assign]  # what the collector calls
        self._parameters = list(self._encoder.parameters())
        self._held: Any = None
        self._guard = stack.enter_context(InterruptGuard(rank))
        self._collector = setup.create_collector(self._policy, rank, lambda: self._guard.requested, stack)
        self.save, self.restore = self._collector.local_state_dict, self._collector.load_local_state_dict

    def serve(self) -> int | str | None:
        """Answer the agent's requests until the run has ended; return the exit status that the agent sends."""
        with RPCLink(self) as self._link:
            for method, args, answer in self._link.requests():
                if method == "end":
                    answer.set_result(None)
                    return args[0]
                answer.set_result(getattr(self, method)(*args))
        raise AssertionError

    def collect(self, parameters: list[Tensor], envstep: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Play with the encoder's `parameters` at the global env step; return samples without observations."""
        self._load(parameters)
        self._collector.envstep = envstep
        block, figures = self._collector.collect()
        samples = self._policy.to_samples(block)
        self._held = samples.pop("obs")
        return samples, figures | {"signum": self._guard.signum or 0}

    def encode(self, parameters: list[Tensor], index_B: Tensor) -> Tensor:
        """Return features `[B, F]` of the samples at `index_B` of the last collect, with gradients."""
        self._load(parameters)
        self._encoder.train()
        return self._features(tree_map(lambda leaf: leaf[index_B], self._held))

    def gradient(self, context: int) -> list[Tensor]:
        """Return the gradients of the encoder's parameters, which backward has left in a context of rpc's autograd."""
        found = dist_autograd.get_gradients(context)
        return [found.get(parameter, torch.zeros_like(parameter)).cpu() for parameter in self._parameters]

    def _act(self, obs: Any, **kwargs: Any) -> Output:
        """Send features of observations `[N, ...]` and return the agent's `action` `[N]`: one request a step."""
        self._encoder.eval()  # acting is deterministic in the observation
        with torch.inference_mode():
            features = self._features(obs)
        return result(self._link.ask(AGENT, "act", self._link.rank, features, kwargs))

    def _features(self, obs: Any) -> Tensor:
        with autocast(self._policy.precision, self._policy.device):
            return self._encoder(self._policy._to_device(obs)).cpu()

    @torch.no_grad()
    def _load(self, parameters: list[Tensor]) -> None:
        for own, new in zip(self._parameters, parameters, strict=True):
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
    """Train an on-policy policy with one agent (rank 0) and observers (all other ranks); return it on the agent.

    Each observer plays its own `env.collector_env_num` environments and encodes the observations; the agent owns the
    head, chooses the actions and learns. `policy.collect.n_episode` applies to each observer, `policy.learn.batch_size`
    to all together. Arguments and errors are those of `serial_pipeline`. Every rank calls it, inside `DDPContext`.
    """
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    if get_world_size() < 2:
        raise ConfigError(
            "serial_pipeline_rpc needs an agent and at least one observer: use 'torchrun --nproc_per_node=3', "
            "or 'ding_lite -m rpc --nproc 3'."
        )
    names: dict[str, Any] = {"pipeline": "serial_pipeline_rpc", "trains": "serial_pipeline_onpolicy"}
    setup = prepare_run(input_cfg, seed, env_setting, overrides=overrides, limits=limits, **names)
    if setup.whole.policy.get("divide"):
        raise ConfigError("policy.divide=True: in mode rpc only the agent learns, so leave it out.")
    policy = setup.cfg.policy
    for path, schedule in find_schedules(policy, setup.policy_cls).items():
        if not path.startswith(("learn.", "eval.")) and schedule.by != "env_step":  # observers may use the number
            raise ConfigError(
                f"policy.{path}.by: expected 'env_step', got '{schedule.by}', because the observers of "
                "serial_pipeline_rpc count nothing else."
            )
    refuse_options(setup.cfg, "serial_pipeline_rpc", "no process sees the observations of all observers")
    rank = get_rank()
    with alone():  # from here on every rank counts as rank 0 of one process
        if rank == AGENT:
            return _lead(setup, callbacks)
        with ExitStack() as stack:
            status = Observer(setup, rank, stack).serve()
    if status:
        raise SystemExit(status if isinstance(status, int) else 1)
    return None


def _lead(setup: RunSetup, callbacks: Sequence[Callback]) -> Policy:
    """Run as the agent. At the end of the run, unless an error ends it, send the observers the exit status."""
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


def find_encoder(policy: Policy) -> nn.Module:
    """Return the encoder of a policy's model; raise `ConfigError` if the model cannot be split."""
    found = dict(policy.model.named_children())
    what = f"policy.model '{type(policy.model).__name__}'"
    if not {"encoder", "head"} <= set(found):
        raise ConfigError(
            f"{what} cannot be split between observers and an agent: expected an 'encoder' of observations and a "
            f"'head', got {', '.join(found)}. Use a policy such as 'pg', or train it with serial_pipeline_onpolicy."
        )
    if buffers := [name for name, _ in found["encoder"].named_buffers()]:
        raise ConfigError(
            f"The encoder of {what} has buffers ({', '.join(buffers)}), which would differ between observers: use a "
            "normalisation without buffers, such as LayerNorm."
        )
    return found["encoder"]


AGENT = 0  # its rank; all others are observers
TRANSPORTS = ["uv"]  # sockets; the shared-memory transport polls all the time and takes cores from environments

Request = tuple[str, tuple[Any, ...], Future[Any]]  # method, arguments, and the future of the answer


class _Here:
    """The state of this process for rpc's threads, which can only call functions of a module."""

    service: Any = None
    inbox: queue.SimpleQueue[Request | Future[Any] | Exception] = queue.SimpleQueue()  # read by the main thread


@rpc.functions.async_execution  # type: ignore[untyped-decorator]  # torch's has no hints
def _answer(method: str, args: tuple[Any, ...]) -> Future[Any]:
    answer: Future[Any] = Future()
    _Here.inbox.put((method, args, answer))
    return answer


def _answer_now(method: str, args: tuple[Any, ...]) -> Any:
    try:
        return getattr(_Here.service, method)(*args)
    except Exception as error:
        _Here.inbox.put(error)  # the main thread raises it, and the watchdog tells the others why it ends
        return dist.DistNetworkError(f"rpc: {rpc.get_worker_info().name} has failed: {type(error).__name__}")


def _find_store(url: str) -> Iterator[tuple[dist.Store, int, int]]:
    """Yield what torch's rpc asks for an `init_method` that begins with 'group:': the store of the process group."""
    world: Any = dist.group.WORLD
    yield world.get_group_store(), dist.get_rank(), dist.get_world_size()


register_rendezvous_handler("group", _find_store)


class RPCLink(AbstractContextManager[Any]):
    """A context that opens this process's connections to all others, which may call the methods of `service`.

    Every rank of the group enters it, and they leave it together. If an error other than `SystemExit` ends a process,
    the others do not wait for it.
    """

    def __init__(self, service: Any) -> None:
        self.rank, self.observers = dist.get_rank(), range(1, dist.get_world_size())
        self._timeout = read_seconds("DING_LITE_TIMEOUT", "600")
        _Here.service, _Here.inbox = service, queue.SimpleQueue()

    def __enter__(self) -> RPCLink:
        with carried(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are using a Backend", UserWarning)  # torch's own way to open rpc
            options = rpc.TensorPipeRpcBackendOptions(
                rpc_timeout=self._timeout, init_method="group://", _transports=TRANSPORTS
            )
            name = "agent" if self.rank == AGENT else f"observer_{self.rank}"
            rpc.init_rpc(name, None, self.rank, len(self.observers) + 1, options)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, SystemExit):
            with waiting():
                rpc.shutdown()
            _Here.service = None

    def ask(self, rank: int, method: str, *args: Any) -> Future[Any]:
        """Return the future answer of that rank's main thread, without a time limit."""
        return rpc.rpc_async(rank, _answer, (method, args), timeout=0)

    def ask_now(self, rank: int, method: str, *args: Any) -> Future[Any]:
        """Return the future answer of one of that rank's rpc threads."""
        return rpc.rpc_async(rank, _answer_now, (method, args))

    def requests(self, answers: Iterable[Future[Any]] = ()) -> Iterator[Request]:
        """Yield the requests to this process's main thread until all `answers` have arrived; without any, for ever."""
        expected, arrived = list(answers), 0
        for answer in expected:
            answer.add_done_callback(_Here.inbox.put)
        while arrived < len(expected) or not expected:
            with waiting():
                item = _Here.inbox.get()
            if isinstance(item, Exception):
                raise item
            if isinstance(item, tuple):
                yield item
            else:
                result(item)  # raises the error, if it is one
                arrived += 1


def result(answer: Future[Any]) -> Any:
    """Wait for an answer and return it; if the other process is lost or has failed, raise `DistNetworkError`."""
    with carried():
        value = answer.wait()
    if isinstance(value, dist.DistNetworkError):
        raise value
    return value


@contextmanager
def carried() -> Iterator[None]:
    """Return a context manager that marks a wait for others, and turns errors of rpc into `DistNetworkError`."""
    try:
        with waiting():
            yield
    except RuntimeError as error:
        raise dist.DistNetworkError(f"rpc: {str(error).partition(chr(10))[0]}") from error
