"""Recorded programs: they compute what the function does, with fewer operations."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import grad, vmap

from ding_lite.together.recording import record


def loss(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """Return a loss of a layer."""
    return torch.nn.functional.linear(x, weight, bias).tanh().square().mean() * 0.5


def gradients(weight: Tensor, bias: Tensor, unused: Tensor, x: Tensor) -> list[Tensor]:
    """Return the gradients of three layers."""
    return list(vmap(grad(loss, argnums=(0, 1)))(weight, bias, x))


def test_a_program_computes_what_the_function_does() -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(3, 4, 5), torch.randn(3, 4), torch.randn(3), torch.randn(3, 8, 5)]
    program, used = record(gradients, inputs)
    assert used == [True, True, False, True]
    others = [torch.randn_like(each) for each in inputs]
    results = program(*(each for each, is_used in zip(others, used, strict=True) if is_used))
    for ours, theirs in zip(results, gradients(*others), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_operations_without_an_effect_are_left_out() -> None:
    """Of a layer's gradient remain two products, with the bias added in the first one, and no constant is computed."""
    inputs = [torch.randn(3, 4, 5), torch.randn(3, 4), torch.randn(3), torch.randn(3, 8, 5)]
    program, _ = record(gradients, inputs)
    nodes = [node for node in program.__self__.graph.nodes if node.op == "call_function"]  # type: ignore[attr-defined]
    names = [str(node.target) for node in nodes]
    assert names.count("aten.baddbmm.default") == names.count("aten.bmm.default") == 1
    assert not {"aten.add.Tensor", "aten.expand.default", "aten.ones_like.default", "aten._to_copy.default"} & {*names}


def test_a_buffer_that_the_function_changes_is_changed() -> None:
    def count(total: Tensor, x: Tensor) -> list[Tensor]:
        total.add_(1)
        return [x * total]

    program, _ = record(count, [torch.zeros(2), torch.ones(2)])
    total = torch.zeros(2)
    assert program(total, torch.ones(2))[0].tolist() == [1.0, 1.0]
    assert program(total, torch.ones(2))[0].tolist() == [2.0, 2.0]
