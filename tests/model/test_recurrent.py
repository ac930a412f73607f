"""The recurrent core: torch's cells step by step, states at the starts of episodes, successors of truncated rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.recurrent import DRQN, RecurrentCore, unroll

T, B, F, H = 7, 3, 4, 5
KINDS = ["normal", "pytorch", "gru"]
START = torch.zeros(T, B, dtype=torch.bool)
START[0, 0] = START[2, 1] = START[3, 1] = START[6, 2] = True


def make(kind: Any) -> tuple[RecurrentCore, Tensor, dict[str, Tensor]]:
    torch.manual_seed(0)
    core = RecurrentCore(F, H, kind).double()
    state = {name: torch.randn(B, H, dtype=torch.float64) for name in core.cell.names}
    return core, torch.randn(T, B, F, dtype=torch.float64), state


def normalized_lstm(cell: Any, x: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the state after one row of one sequence: an LSTM whose gates' inputs are normalised."""

    def norm(z: Tensor) -> Tensor:
        return (z - z.mean()) / (z.var(correction=0) + 1e-5).sqrt()

    i, f, o, u = torch.split(norm(cell.wx @ x) + norm(cell.wh @ state["h"]) + cell.bias, H)
    c = torch.sigmoid(f) * state["c"] + torch.sigmoid(i) * torch.tanh(u)
    return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}


def torchs_cell(cell: Any, x: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the state after one row of one sequence, by torch's own cell of these weights."""
    step = (nn.GRUCell if isinstance(cell, nn.GRU) else nn.LSTMCell)(F, H).double()
    step.load_state_dict({name.removesuffix("_l0"): value for name, value in cell.state_dict().items()})
    given = tuple(state[name] for name in ("h", "c") if name in state)
    after = step(x, given if len(given) > 1 else given[0])
    return dict(zip(state, after if len(given) > 1 else (after,), strict=True))


def naive(core: Any, x_TBF: Tensor, state: dict[str, Tensor], start_TB: Tensor) -> list[list[dict[str, Tensor]]]:
    """Return the state after each row, by row and sequence."""
    step = torchs_cell if isinstance(core.cell, nn.RNNBase) else normalized_lstm
    now = [{name: part[b] for name, part in state.items()} for b in range(B)]
    after = []
    for x_BF, start_B in zip(x_TBF, start_TB, strict=True):
        for b in range(B):
            begun = {name: part * ~start_B[b] for name, part in now[b].items()}
            now[b] = step(core.cell, x_BF[b], begun)
        after.append(list(now))
    return after


@pytest.mark.parametrize("starts", ["nowhere", "first", "inside", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_states_are_those_of_the_equations(kind: str, starts: str) -> None:
    core, x, state = make(kind)
    start = {"inside": START, "first": START & (torch.arange(T) == 0)[:, None]}.get(starts, torch.zeros_like(START))
    after = naive(core, x, state, start)
    y, next_state, at_places = core(x, state, None if starts == "none" else start)
    torch.testing.assert_close(y, torch.stack([torch.stack([s["h"] for s in row]) for row in after]))
    for name, part in next_state.items():
        torch.testing.assert_close(part, torch.stack([s[name] for s in after[-1]]))
    assert set(next_state) == set(state)
    assert at_places is None
    place_K = torch.tensor([1 * B + 1, 6 * B + 0, 2 * B + 1])
    for name, part in core(x, state, start, place_K)[2].items():
        torch.testing.assert_close(part, torch.stack([after[1][1][name], after[6][0][name], after[2][1][name]]))


@pytest.mark.parametrize("kind", KINDS)
def test_one_call_and_single_steps_have_the_same_gradient(kind: str) -> None:
    core, x, state = make(kind)
    gradients = []
    for place in (None, torch.tensor([0])):  # places need the states of all rows
        y, _, _ = core(x, state, None, place)
        gradients.append(torch.autograd.grad(y.square().sum(), list(core.parameters())))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_under_autocast_it_computes_in_float32() -> None:
    core, x, _ = make("gru")
    core, x = core.float(), x.float()
    exact = core(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(core(x)[0], exact)
        assert core(x.bfloat16())[0].dtype == torch.float32


def q_model(kind: Any = "pytorch", **options: Any) -> DRQN:
    torch.manual_seed(1)
    return DRQN(F, 2, [8, H], lstm_type=kind, **options).double()


@pytest.mark.parametrize("kind", KINDS)
def test_successors_of_truncated_rows_are_run_in_the_episode_of_the_row(kind: str) -> None:
    model, (_, x, state) = q_model(kind), make(kind)
    final_index = torch.tensor([1 * B + 1, 5 * B + 2, -2])  # the next rows start episodes; -2 is of an earlier row
    batch: dict[str, Any] = {
        "obs": x, "last_obs": torch.randn(B, F, dtype=torch.float64), "prev_state": state, "episode_start": START,
        "final_obs": torch.randn(3, F, dtype=torch.float64), "final_index": final_index,
    }  # fmt: skip
    output, next_q = unroll(model, "logit", batch)
    for b in range(B):
        now: Any = {name: part[b : b + 1] for name, part in state.items()}
        for t in range(T):
            if START[t, b]:
                now = None
            step = model(x[t, b][None, None], prev_state=now)
            torch.testing.assert_close(output["logit"][t, b], step["logit"][0, 0])
            now = step["next_state"]
            places = (final_index == t * B + b).nonzero().flatten().tolist()
            if places:
                follower = batch["final_obs"][places[0]]
            elif t + 1 == T:
                follower = batch["last_obs"][b]
            else:
                follower = x[t + 1, b]
                now = None if START[t + 1, b] else now
            expected = model(follower[None, None], prev_state=now)["logit"][0, 0]
            torch.testing.assert_close(next_q[t, b], expected.detach())
    assert output["logit"].requires_grad
    assert not next_q.requires_grad


@pytest.mark.parametrize("res_link", [False, True])
def test_the_q_network_is_encoder_core_and_head(res_link: bool) -> None:
    model, (_, x, state) = q_model(res_link=res_link, dueling=False, head_layer_num=0), make("pytorch")
    features = functional.relu(model.encoder[1](functional.relu(model.encoder[0](x))))  # type: ignore[index]
    y, next_state, _ = model.core(features, state, START)
    output = model(x, prev_state=state, episode_start=START)
    (layer,) = model.head.children()
    torch.testing.assert_close(output["logit"], layer(y + features if res_link else y))
    assert set(output) == {"logit", "next_state"}
    torch.testing.assert_close(output["next_state"], next_state)


def test_sequences_of_images() -> None:
    model = DRQN([4, 36, 36], 3, [4, 6, 6, 16])
    obs = torch.randint(256, (2, 3, 4, 36, 36), dtype=torch.uint8)
    whole = model(obs)["logit"]
    first = model(obs[:1])
    torch.testing.assert_close(whole[1:], model(obs[1:], prev_state=first["next_state"])["logit"])
    assert whole.shape == (2, 3, 3)
