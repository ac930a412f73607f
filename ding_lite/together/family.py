"""Policies of the same structure as rows of common tensors; their losses, steps and actions are computed at once.

Shapes: K policies.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ding_lite.policy import Policy
from ding_lite.together.joint import JointFunction
from ding_lite.together.rows import Rows
from ding_lite.together.steps import TOLERANCE, JointStep, join
from ding_lite.together.values import NotJointError
from ding_lite.utils.tree import tree_leaves


class ActRequest(NamedTuple):
    """What the policy in a row wants: the output of a network for `inputs`."""

    row: int
    run: Callable[[Any], Any]
    inputs: dict[str, Any]


class Family(Rows):
    """Policies of the same structure, which compute together.

    Attributes:
        steps: their optimizer steps, by name.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        super().__init__(policies)
        self._functions: dict[Hashable, JointFunction | None] = {}  # None: it cannot be computed jointly
        self._paths = [{id(part): path for path, part in each.named_modules()} for each in self.networks]
        tensors_K = [dict([*each.named_parameters(), *each.named_buffers()]) for each in self.networks]
        names = {id(tensor): name for name, tensor in tensors_K[0].items()}
        steps_K = [policy._optimizers for policy in policies]
        self.steps = {name: JointStep(self, [steps[name] for steps in steps_K], names) for name in steps_K[0]}
        tensors = {name: tensor for step in self.steps.values() for name, tensor in step.tensors.items()}
        for target in policies[0]._target_networks:
            tensors |= join([policy._target_networks[target].flat for policy in policies], names)[-1]
        for name in tensors_K[0].keys() - tensors.keys():
            tensors[name] = torch.stack([each[name].detach() for each in tensors_K])
            for own, row in zip(tensors_K, tensors[name].unbind(0), strict=True):
                own[name].data = row
        self.tensors = {name: tensors[name] for name in tensors_K[0]}

    def path(self, row: int, network: nn.Module) -> str:
        """Return a name of a policy's network that is the same in all policies."""
        return self._paths[row][id(network)]

    def act(self, key: Hashable, requests: Sequence[ActRequest]) -> list[Any]:
        """Return the outputs of a network of some policies; `key` says which network, and how it is called."""
        with torch.inference_mode():
            joins = self.are_most(len(requests)) and self._functions.get(key, True) is not None
            if joins and (outputs := self._act_jointly(key, requests)) is not None:
                return outputs
            return [request.run(request.inputs) for request in requests]

    def _act_jointly(self, key: Hashable, requests: Sequence[ActRequest]) -> list[Any] | None:
        """Return the outputs; None if they cannot be computed jointly, now and in the future."""
        is_new = key not in self._functions
        function = self._functions.setdefault(key, JointFunction(self))
        assert function is not None
        try:
            functions, inputs = [each.run for each in requests], [each.inputs for each in requests]
            outputs, _ = function(functions, inputs, [request.row for request in requests])
            for request, output in zip(requests if is_new else (), outputs, strict=False):
                check_close(output, request.run(request.inputs))
        except NotJointError:
            self._functions[key] = None
            return None
        return outputs

    def leave(self, row: int) -> None:
        """Give the policy in a row memory of its own; the row has no meaning from now on."""
        self._left.remove(row)
        for step in self.steps.values():
            step.leave(row)
        policy = self.policies[row]
        moved = {id(param) for step in policy._optimizers.values() for param in step.flat.parameters}
        for target in policy._target_networks.values():
            target.flat.move(target.flat.parameter.data.clone(), target.flat.gradient.clone())
            moved |= {id(param) for param in target.flat.parameters}
        for tensor in (*self.networks[row].parameters(), *self.networks[row].buffers()):
            if id(tensor) not in moved:
                tensor.data = tensor.data.clone()


def check_close(output: Any, wanted: Any) -> None:
    """Raise `NotJointError` if the outputs of a network, computed jointly and alone, differ by more than rounding."""
    for ours, theirs in zip(tree_leaves(output), tree_leaves(wanted), strict=True):
        if isinstance(ours, Tensor) and ours.is_floating_point():
            bound = TOLERANCE[ours.dtype] * theirs.nan_to_num(posinf=0.0, neginf=0.0).abs().max()
            if (ours - theirs).nan_to_num().abs().max() > bound:
                raise NotJointError("the outputs of a network are not those of each policy alone")
