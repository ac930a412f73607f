"""Where runs meet: their policies become families, whose losses, steps and actions are computed together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback, WatchedRun
from ding_lite.together.family import ActRequest, Family
from ding_lite.together.hub import Hub, Program
from ding_lite.together.steps import LossRequest, StepResult
from ding_lite.together.values import NotJointError, constant
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.gradient import EagerGradient
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import dotted_items

ORDINARY = {"compile": False, "data_parallel": "flat"}  # keys of other ways to compute gradients
START, ACT, STEP = "a start", "b act", "c step"  # kinds of requests; of policies equally far, the first go on first


class JointGradient(EagerGradient):
    """Takes the steps of an optimizer together with other policies."""

    detaches = True

    def __init__(self, step: OptimizerStep, take: Callable[[Loss, Batch], StepResult]) -> None:
        self._flat, self._take = step.flat, take
        self._norm: Tensor | None = None

    def function(self, loss_of: Loss) -> Loss:
        """Return a function that computes the gradient too, and takes the step unless the others may not."""
        return partial(self._run, loss_of)

    def _run(self, loss_of: Loss, batch: Batch) -> tuple[Tensor, Figures]:
        self._flat.check()
        loss, figures, self._norm = self._take(loss_of, batch)
        return loss, figures

    def compute(self, loss: Tensor, weight: float) -> None:
        """Do nothing: the averaged gradient is there already."""

    def update(self, update: Callable[[], Tensor], optimizers: Collection[torch.optim.Optimizer]) -> Tensor:
        """Return the gradient's norm, and take the step with `update` if it was not taken together."""
        return update() if self._norm is None else self._norm


class JointActing:
    """Takes the place of a policy's CUDA graphs: computes the outputs of networks together with other policies."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run, self.evaluating = run, False
        self._several_ranks = get_world_size() > 1

    def replayed(self, network: nn.Module) -> Callable[..., Any]:
        """Return a function like a network."""
        if self.evaluating and self._several_ranks:  # rank 0 alone evaluates, and the others wait for this run
            return network
        return partial(self._run, network)

    @contextmanager
    def evaluation(self, evaluating: Callable[[], Any]) -> Iterator[None]:
        """Take the place of `Policy.evaluating`, which is given."""
        self.evaluating = True
        try:
            with evaluating():
                yield
        finally:
            self.evaluating = False


class Member(Callback):
    """A run of several: its policy computes together with theirs, from the start on.

    Attributes:
        policy: None before the start.
        family: the policies with which it computes, in which it has a row; None: it is the only one of its structure.
    """

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self.policy: Policy | None = None
        self.family: Family | None = None
        self.row, self.group = 0, 0

    def on_start(self, run: WatchedRun) -> None:
        """Join the others.

        Raises:
            UserError: another way to compute gradients is configured.
        """
        self.policy = run.policy
        for key, ordinary in ORDINARY.items():
            if (value := self.policy.current_config.get(key, ordinary)) != ordinary:
                raise UserError(f"policy.{key}={value!r} does not work with --together: set it to {ordinary!r}.")
        self._meeting.hub.meet((-2,), (START,), self._meeting.start, self)

    def install(self, family: Family, row: int, group: int) -> None:
        """Compute with a family from now on; `group` is a number of its policies' structure."""
        policy, self.family, self.row, self.group = family.policies[row], family, row, group
        for name, step in policy._optimizers.items():
            step.gradient = JointGradient(step, partial(self._take_step, name, step))
        if not policy._noisy and policy.precision == "float32":
            acting: Any = JointActing(self._act)
            own: Any = type(policy).evaluating.__get__(policy)
            policy.__dict__ |= {"_graphs": acting, "evaluating": partial(acting.evaluation, own)}

    def _meet(self, kind: str, key: tuple[Hashable, ...], compute: Callable[[list[Any]], Any], request: Any) -> Any:
        assert self.policy is not None
        counts = self.policy.schedules.state_dict()
        position = counts["collect"], counts["iteration"]
        return self._meeting.hub.meet(position, (kind, self.group, *key), compute, (self, request))

    def _take_step(self, name: str, step: OptimizerStep, loss_of: Loss, batch: Batch) -> StepResult:
        key = name, _shape(batch)
        return self._meet(STEP, key, partial(_take_steps, *key), (loss_of, batch, step.weight))

    def _act(self, network: nn.Module, obs: Any, **kwargs: Any) -> Any:
        assert self.family is not None
        tensors = {key: value for key, value in kwargs.items() if isinstance(value, Tensor | dict)}
        others = {key: value for key, value in kwargs.items() if key not in tensors}
        inputs = {"obs": obs, "tensors": tensors}
        key = self.family.path(self.row, network), network.training, *others.items(), _shape(inputs)

        def run(inputs: Any) -> Any:
            return network(inputs["obs"], **inputs["tensors"], **others)

        return self._meet(ACT, key, partial(_act, key), (run, inputs))


def _shape(tree: dict[str, Any]) -> Hashable:
    return tuple((name, constant(value)) for name, value in dotted_items(tree))


def _take_steps(name: str, shape: Hashable, requests: list[tuple[Member, Any]]) -> list[StepResult]:
    family = requests[0][0].family
    assert family is not None
    try:
        return family.steps[name].take(shape, [LossRequest(member.row, *request) for member, request in requests])
    except NotJointError as error:
        kind = family.policies[0].current_config.type
        raise UserError(f"Policy '{kind}' cannot learn together with others: {error}. Leave --together out.") from error


def _act(key: Hashable, requests: list[tuple[Member, Any]]) -> list[Any]:
    family = requests[0][0].family
    assert family is not None
    return family.act(key, [ActRequest(member.row, *request) for member, request in requests])


class Meeting:
    """Several runs, whose policies compute together where they have the same structure.

    Attributes:
        members: for each run a callback, which it must get.
    """

    def __init__(self, number: int) -> None:
        self.hub = Hub()
        self.members = [Member(self) for _ in range(number)]
        self._families: list[Family] = []  # those of the start, until `describe` has told of them
        self._alone = 0  # policies that have no family

    def run(self, runs: Sequence[Callable[[Callback], Any]], on_end: Callable[[int, Program], None]) -> list[Program]:
        """Carry out runs, which take a callback, and return their programs, see `Hub.run`."""

        def end(number: int, program: Program) -> None:
            self._leave(self.members[number])
            on_end(number, program)

        return self.hub.run([partial(run, member) for run, member in zip(runs, self.members, strict=True)], end)

    def start(self, members: list[Member]) -> list[None]:
        """Let the policies of all runs that have started become families."""
        groups: dict[Hashable, list[Member]] = {}
        for member in members:
            groups.setdefault(_structure(member.policy), []).append(member)
        for number, group in enumerate(groups.values()):
            if len(group) > 1:
                self._families.append(_join(group, number))
            self._alone += len(group) == 1 < len(members)
        return [None] * len(members)

    def describe(self) -> str:
        """Return a line about what computing together saves, as soon as every loss has been timed; until then ""."""
        steps = [(family, list(family.steps.values())) for family in self._families]
        if not (self._alone or steps) or any(step.seconds[1] == 0.0 for _, each in steps for step in each):
            return ""
        lines = [f"{self._alone} runs learn alone, because their networks or other keys differ."] * bool(self._alone)
        for family, each in steps:
            one, joint = (1000 * sum(step.seconds[n] for step in each) for n in (0, 1))
            number = len(family.policies)
            line = f"{number} runs in step: losses and gradients take {joint:.2f} ms, one by one {one:.2f} ms"
            slow = "; it would be faster without --together, with --jobs on several cores"
            lines.append(f"{line}{slow * (joint > one)}.")
        self._families, self._alone = [], 0  # said once
        return " ".join(lines)

    def _leave(self, member: Member) -> None:
        family, member.family = member.family, None
        if family is None:
            return
        family.leave(member.row)
        left = [each for each in self.members if each.family is family and family.has(each.row)]
        if left and 2 * len(left) <= len(family.policies):  # else they would compute more empty rows than others
            _join(left, member.group)


def _join(members: Sequence[Member], group: int) -> Family:
    family = Family([member.policy for member in members if member.policy is not None])
    for row, member in enumerate(members):
        member.install(family, row, group)
    return family


def _structure(policy: Policy | None) -> Hashable:
    """Return what is equal for policies that may compute together: they differ in numbers only."""
    assert policy is not None
    tensors = [(name, constant(each)) for part in policy._modules for name, each in part.state_dict().items()]
    values = [(key, constant(each)) for key, each in dotted_items(policy.current_config) if not isinstance(each, float)]
    return type(policy), tuple(map(repr, policy._modules)), tuple(tensors), tuple(values), policy.device
