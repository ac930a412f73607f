"""Records a function of tensors as a program of plain operations, and leaves out what has no effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
# Operations that return their first argument, if they change neither shape nor dtype.
RESHAPES = {
    *(aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.reshape.default),
    *(aten.detach.default, aten.alias.default, aten._to_copy.default),
}
BY_ONE = {aten.mul.Scalar, aten.mul.Tensor, aten.div.Scalar, aten.div.Tensor, aten.pow.Tensor_Scalar}
# Operations whose result depends on the shape of their first argument alone.
FILLS = {
    *(aten.ones_like.default, aten.zeros_like.default, aten.full_like.default),
    *(aten.new_zeros.default, aten.new_ones.default, aten.new_full.default),
}


def record(function: Callable[..., list[Tensor]], inputs: Sequence[Tensor]) -> tuple[Callable[..., Any], list[bool]]:
    """Return a program that computes a function of tensors of these shapes, and which of them it needs as arguments.

    The function must not depend on the values of tensors otherwise than by operations.
    """
    module = make_fx(function)(*inputs)
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    if not any(getattr(node.target, "_schema", None) is None or node.target._schema.is_mutable for node in calls):
        _simplify(module, calls, inputs)
    module.graph.eliminate_dead_code()
    arguments = [node for node in module.graph.nodes if node.op == "placeholder"]
    used = [bool(node.users) for node in arguments]
    for node, is_used in zip(arguments, used, strict=True):
        if not is_used:
            module.graph.erase_node(node)
    module.recompile()
    return module.forward, used


def _simplify(module: fx.GraphModule, calls: list[fx.Node], inputs: Sequence[Tensor]) -> None:
    """Remove operations without an effect, compute what is constant, and add to products in one operation."""
    interpreter = fx.Interpreter(module, garbage_collect_values=False)
    interpreter.run(*inputs)
    values, constants = interpreter.env, set[fx.Node]()
    for node in calls:
        if all(source in constants for source in node.all_input_nodes) or node.target in FILLS:
            if isinstance(values[node], Tensor):
                constants.add(node)
        elif (source := _same(node, values)) is not None:
            node.replace_all_uses_with(source)
    for number, node in enumerate(node for node in calls if node in constants):
        if any(user not in constants for user in node.users):
            module.register_buffer(f"constant{number}", values[node].clone(), persistent=False)
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(module.graph.get_attr(f"constant{number}"))
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        is_sum = node.target is aten.add.Tensor and not node.kwargs
        for product, other in (node.args, node.args[::-1]) if is_sum else ():
            is_product = isinstance(product, fx.Node) and product.target is aten.bmm.default and len(product.users) == 1
            if is_product and isinstance(other, fx.Node) and values[node].shape == values[product].shape:
                with module.graph.inserting_before(node):
                    joined = module.graph.call_function(aten.baddbmm.default, (other, *product.args))
                node.replace_all_uses_with(joined)
                break


def _same(node: fx.Node, values: dict[fx.Node, Any]) -> fx.Node | None:
    """Return the node whose value this one has in any case; None if there is none."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node) or not isinstance(values[source], Tensor):
        return None
    before, after = values[source], values[node]
    if node.target is aten.transpose.int and source.target is aten.transpose.int and node.args[1:] == source.args[1:]:
        return source.args[0] if isinstance(source.args[0], fx.Node) else None
    is_by_one = node.target in BY_ONE and not isinstance(node.args[1], fx.Node) and node.args[1] == 1
    has_effect = before.shape != after.shape or before.dtype != after.dtype or before.device != after.device
    return source if (node.target in RESHAPES or is_by_one) and not has_effect else None
