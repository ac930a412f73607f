"""The same optimizer step of several policies: gradients averaged, clipped and applied at once.

Shapes: K policies, P parameters of the step.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Hashable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ding_lite.gpu.reads import bound_values
from ding_lite.together.joint import JointFunction
from ding_lite.together.rows import Rows
from ding_lite.together.values import NotJointError, constant
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.gradient import check_output
from ding_lite.torch_utils.optimizer import OPTIMIZERS, Loss
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.gradient_mean import GradientMean

# Of an element of a joint gradient, relative to the largest one.
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-9}


class LossRequest(NamedTuple):
    """What the policy in a row wants: a step on a batch."""

    row: int
    loss_of: Loss
    batch: Batch
    weight: float


class StepResult(NamedTuple):
    """What it gets. `norm` is that of the averaged gradient; None: the policy must still apply the gradient itself."""

    loss: Tensor
    figures: Figures
    norm: Tensor | None


def join(
    flats: Sequence[FlatParameters], names: dict[int, str], trains: bool = False
) -> tuple[Tensor, Tensor, GradientMean | None, dict[str, Tensor]]:
    """Let the parameters of several networks be rows of one tensor `[K, P]`, and their gradients too.

    Returns:
        Both tensors, what averages the gradients over ranks if the networks are trained on several ranks, and the
        parameters by name `[K, ...]`.
    """
    whole_KP = torch.stack([flat.parameter.data for flat in flats])
    mean = GradientMean(whole_KP.view(-1), flats[0].is_shared) if trains and get_world_size() > 1 else None
    gradient_KP = torch.zeros_like(whole_KP) if mean is None else mean.gradient.view_as(whole_KP)
    for flat, row, gradient in zip(flats, whole_KP, gradient_KP, strict=True):
        gradient.copy_(flat.gradient)
        flat.move(row, gradient)
    places = zip(flats[0].parameters, flats[0].views(whole_KP), strict=True)
    return whole_KP, gradient_KP, mean, {names[id(parameter)]: place for parameter, place in places}


class JointStep:
    """One of the optimizer steps of a family, see `OptimizerStep`.

    Attributes:
        tensors: the parameters by name, `[K, ...]`.
        seconds: of one call of each loss and its gradient: of all policies one after another, and together.
    """

    def __init__(self, rows: Rows, steps: Sequence[OptimizerStep], names: dict[int, str]) -> None:
        self._rows, self._steps = rows, steps
        flats = [step.flat for step in steps]
        self._whole_KP, self._gradient_KP, self._mean, self.tensors = join(flats, names, trains=True)
        self._gradients = flats[0].views(self._gradient_KP)
        self._functions: dict[Hashable, JointFunction | None] = {}  # None: it is computed one by one
        self._optimizer: torch.optim.Optimizer | None = None  # of all policies; None: each uses its own
        self.seconds = (0.0, 0.0)
        self._shares = False  # whether the policies' optimizers have rows of its moments

    def take(self, shape: Hashable, requests: Sequence[LossRequest]) -> list[StepResult]:
        """Compute the losses and the averaged gradients, and apply these if all policies of the family take part.

        `shape` is equal for batches with the same structure.
        """
        rows = [request.row for request in requests]
        losses = self._compute_jointly((shape, key_of(requests[0].loss_of)), requests)
        losses = losses or list(map(self._compute_alone, requests))
        self._average(requests, [loss for loss, _ in losses])
        norms = torch.linalg.vector_norm(self._gradient_KP, dim=1)
        own = norms if len(rows) == len(self._steps) else norms[rows]
        applies = len(rows) == self._rows.size and bool(own.isfinite().all()) and self._joins(rows)
        if applies:
            self._apply(norms)
        else:
            self.separate()
        results = zip(losses, own.unbind(0), strict=True)
        return [StepResult(loss, figures, norm if applies else None) for (loss, figures), norm in results]

    def _compute_jointly(self, key: Hashable, requests: Sequence[LossRequest]) -> list[tuple[Tensor, Figures]]:
        """Return the losses and figures; none if they are to be computed one by one.

        Raises:
            NotJointError: they cannot be computed jointly, which the first call finds out.
        """
        function = self._functions.get(key)
        if not self._rows.are_most(len(requests)) or (function is None and key in self._functions):
            return []
        if function is None:
            function = self._functions[key] = JointFunction(self._rows, list(self.tensors))
            with self._rows.unchanged_buffers():
                self._check(function, requests)
        try:
            outputs, gradients = self._call(function, requests)
        except NotJointError:  # a value that it reads changes all the time
            self._functions[key] = None
            return []
        torch._foreach_copy_(self._gradients, gradients)
        return outputs

    @staticmethod
    def _call(function: JointFunction, requests: Sequence[LossRequest]) -> tuple[list[Any], list[Tensor]]:
        rows = [request.row for request in requests]
        return function([request.loss_of for request in requests], [request.batch for request in requests], rows)

    def _check(self, function: JointFunction, requests: Sequence[LossRequest]) -> None:
        """Compare the joint gradient with those that each policy computes alone, and take the time of both."""
        seconds = list[float]()
        for _ in range(2):  # the first one is slower
            start = time.perf_counter()
            for request in requests:
                self._compute_alone(request)
            middle = time.perf_counter()
            _, gradients = self._call(function, requests)
            seconds = [middle - start, time.perf_counter() - middle]
        self.seconds = (self.seconds[0] + seconds[0], self.seconds[1] + seconds[1])
        rows = [request.row for request in requests]
        wanted_KP = self._gradient_KP[rows].clone()
        torch._foreach_copy_(self._gradients, gradients)
        difference = (self._gradient_KP[rows] - wanted_KP).abs().max()
        if difference > TOLERANCE[wanted_KP.dtype] * wanted_KP.abs().max() and bool(wanted_KP.isfinite().all()):
            raise NotJointError("the gradients are not those of each policy alone")

    def _compute_alone(self, request: LossRequest) -> tuple[Tensor, Figures]:
        self._steps[request.row].flat.zero_grad()
        loss, figures = check_output(request.loss_of(request.batch), request.loss_of, has_gradient=True)
        loss.backward()
        return loss.detach(), figures

    def _average(self, requests: Sequence[LossRequest], losses: Sequence[Tensor]) -> None:
        """Average the gradients over ranks; one that belongs to a loss that is not finite becomes not finite."""
        for request, loss in zip(requests, losses, strict=True):
            flat = self._steps[request.row].flat
            flat.flag.copy_(loss * 0)
            if request.weight != 1.0:
                flat.gradient.mul_(request.weight)
        if self._mean is not None:
            self._mean.compute()

    def _joins(self, rows: Sequence[int]) -> bool:
        """Return whether the optimizers of these policies, all that are left, may take their steps as one."""
        steps = [self._steps[row] for row in rows]
        own = [next(iter(step.optimizers.values())) for step in steps]
        options = [{key: value for key, value in each.param_groups[0].items() if key != "params"} for each in own]
        same = all(each == options[0] for each in options) and type(own[0]) in OPTIMIZERS.values()
        if not same or len(steps[0].optimizers) > 1 or steps[0]._learn.grad_clip_type == "clip_value":
            return False
        if self._optimizer is None:
            states = [dict(each.state[step.flat.parameter]) for each, step in zip(own, steps, strict=True)]
            self._optimizer = self._create_optimizer(type(own[0]), options[0], rows, states)
        if self._optimizer is not None:
            self._optimizer.param_groups[0].update(options[0])
        return self._optimizer is not None

    def _create_optimizer(
        self, cls: Any, options: dict[str, Any], rows: Sequence[int], states: list[dict[str, Any]]
    ) -> torch.optim.Optimizer | None:
        """Return an optimizer of all policies with the moments of those in some rows; None if their ages differ."""
        ages = [float(state.get("step", bool(state))) for state in states]
        if len(set(ages)) > 1:
            return None
        parameter = nn.Parameter(self._whole_KP)
        parameter.grad = self._gradient_KP
        known = inspect.signature(cls).parameters
        optimizer = cls([parameter], **{key: value for key, value in options.items() if key in known})
        joined = {name: value.clone() for name, value in states[0].items() if isinstance(value, Tensor)}
        for name, value in joined.items():
            if value.ndim:
                joined[name] = torch.zeros_like(self._whole_KP)
                joined[name][list(rows)] = torch.stack([state[name] for state in states])
        optimizer.state[parameter].update(joined)
        return optimizer

    def _apply(self, norms: Tensor) -> None:
        """Clip the gradients and take a step of all policies."""
        learn = [step._learn for step in self._steps]
        if learn[0].grad_clip_type is not None:
            bounds = torch.tensor([float(each.grad_clip_value) for each in learn], dtype=norms.dtype)
            self._gradient_KP.mul_((bounds.to(norms.device) / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
        assert self._optimizer is not None
        self._optimizer.step()
        if not self._shares:
            self._share_moments()

    def _share_moments(self) -> None:
        """Give each policy's own optimizer its row of the moments, which checkpoints contain."""
        assert self._optimizer is not None
        (moments,) = self._optimizer.state.values()
        for row, step in enumerate(self._steps):
            if self._rows.has(row):
                (own,) = step.optimizers.values()
                rows = {name: value[row] if value.ndim else value for name, value in moments.items()}
                own.state[step.flat.parameter] = rows
        self._shares = True

    def separate(self) -> None:
        """Let each policy's optimizer count its steps itself again."""
        for step in self._steps if self._shares else ():
            for moments in next(iter(step.optimizers.values())).state.values():
                moments |= {name: value.clone() for name, value in moments.items() if not value.ndim}
        self._optimizer, self._shares = None, False

    def leave(self, row: int) -> None:
        """Give the policy in a row memory of its own; the row has no meaning from now on."""
        flat = self._steps[row].flat
        flat.move(flat.parameter.data.clone(), flat.gradient.clone())
        for optimizer in self._steps[row].optimizers.values():
            for moments in optimizer.state.values():
                moments |= {name: value.clone() for name, value in moments.items() if isinstance(value, Tensor)}


def key_of(loss: Loss) -> Hashable:
    """Return what is equal for losses of different policies that are the same function.

    Raises:
        NotJointError: a tensor is bound to it.
    """
    bound = bound_values(loss)
    if any(isinstance(value, Tensor) for value in bound):
        raise NotJointError("tensors are bound to the loss: pass them in the batch")
    return tuple(value if isinstance(value, CodeType) else constant(value) for value in bound)
