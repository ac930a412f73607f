"""A transformer as memory: many rows at once as step by step, what a row depends on, the equations of a layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.model.gtrxl import GTrXL
from tests.model.test_recurrent import START, B, F, T

H = 6


def make() -> tuple[GTrXL, Tensor, dict[str, Tensor]]:
    """Return a transformer whose second sequence has two rows of memory, and the third more than fit."""
    torch.manual_seed(0)
    core = GTrXL(F, H, 3, 2, 1, 2.0).double()
    for parameter in core.parameters():  # biases are zero at first
        torch.nn.init.normal_(parameter, std=0.5)
    history = torch.randn(5, B, F, dtype=torch.float64)
    start = torch.zeros(5, B, dtype=torch.bool)
    start[3, 1] = True
    return core, torch.randn(T, B, F, dtype=torch.float64), core(history, None, start)[1]


def assert_same(state: dict[str, Tensor], k: int, other: dict[str, Tensor], b: int) -> None:
    """The memories of two sequences are the same, but for rows that do not belong to the episode."""
    length = int(other["length"][b])
    assert state["length"][k] == length
    rows, others = state["memory"][k].view(3, -1), other["memory"][b].view(3, -1)
    torch.testing.assert_close(rows[3 - length :], others[3 - length :])


def test_a_transformer_runs_over_rows_at_once_as_it_does_step_by_step() -> None:
    core, x, state = make()
    assert state["length"].flatten().tolist() == [3, 2, 3]
    place_K = torch.tensor([1 * B + 1, 6 * B + 0, 2 * B + 1])
    whole, end, at_places = core(x, state, START, place_K)
    now, outputs, after = state, [], []
    for t in range(T):
        now = {name: part.masked_fill(START[t, :, None], 0.0) for name, part in now.items()}
        y, now, _ = core(x[t : t + 1], now)
        outputs.append(y)
        after.append(now)
    torch.testing.assert_close(whole, torch.cat(outputs))
    assert at_places is not None
    for b in range(B):
        assert_same(end, b, now, b)
    for k, place in enumerate(place_K.tolist()):
        assert_same(at_places, k, after[place // B], place % B)


def test_a_transformers_row_depends_on_the_memory_of_its_episode_alone() -> None:
    core, x, state = make()
    x.requires_grad_()
    y = core(x, state, START)[0]
    for t, b in ((5, 0), (4, 1), (6, 2)):
        (gradient,) = torch.autograd.grad(y[t, b].sum(), x, retain_graph=True)
        reach = 2 * 3  # two layers, which remember three rows each
        begins = max((row for row in range(t + 1) if START[row, b]), default=0)
        depends = (gradient != 0).any(-1)
        expected = torch.zeros_like(depends)
        expected[max(begins, t - reach) : t + 1, b] = True
        assert torch.equal(depends, expected)


def test_a_layer_of_the_transformer_is_that_of_the_equations() -> None:
    core, x, _ = make()
    layer: Any = core.layers[0]

    def gate(gate: Any, x: Tensor, y: Tensor) -> Tensor:
        w_r, w_z, w_g = gate.of_y.weight.chunk(3)
        u_r, u_z = gate.of_x.weight.chunk(2)
        r, z = torch.sigmoid(w_r @ y + u_r @ x), torch.sigmoid(w_z @ y + u_z @ x - gate.bias)
        return (1 - z) * x + z * torch.tanh(w_g @ y + gate.of_rx.weight @ (r * x))

    rows = core.enter(x[:4, 0])
    norm = functional.layer_norm(rows, (H,), layer.norm_attention.weight, layer.norm_attention.bias)
    query, (key_w, value_w) = layer.query.weight @ norm[3], layer.key_value.weight.chunk(2)
    rate = [1e4 ** (-2 * i / H) for i in range(H // 2)]
    scores = []
    for j in range(4):
        angle = torch.tensor([(3 - j) * each for each in rate], dtype=torch.float64)
        wave = layer.distance.weight @ torch.cat([angle.sin(), angle.cos()])
        key = key_w @ norm[j]
        scores.append((query + layer.key_bias[0]) @ key + (query + layer.distance_bias[0]) @ wave)
    weights = torch.softmax(torch.stack(scores) / H**0.5, 0)
    heard = sum(weight * (value_w @ row) for weight, row in zip(weights, norm, strict=True))
    y = gate(layer.gate_attention, rows[3], torch.relu(layer.output(heard)))
    expected = gate(layer.gate_mlp, y, layer.mlp(layer.norm_mlp(y)))
    single = GTrXL(F, H, 3, 1, 1, 2.0).double()
    single.enter, single.layers[0] = core.enter, layer
    torch.testing.assert_close(single(x[:4])[0][3, 0], expected)
