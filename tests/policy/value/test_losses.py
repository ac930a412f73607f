"""Losses of value-based policies by hand, with their gradients, on numbers that are written down for two states.

A batch is one step from state 0 to state 1 with a reward of 1, and one from state 1 to a terminal state with -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from tests.policy.helpers import last_gradient, make_policy, target_of

LN, EXP = math.log, math.exp
LOG2, LOG3, LOG4 = LN(2), LN(3), LN(4)
EVEN = [1 / 3, 1 / 3, 1 / 3]
LACKS = float("-inf")


class Table(nn.Module):
    """Numbers written down for each state, `[S, ...]`, of which `read` makes an output; observations are one-hot."""

    def __init__(self, rows: Any, read: Callable[..., dict[str, Tensor]]) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.tensor(rows).nan_to_num(neginf=0.0))
        self.register_buffer("lacking", torch.tensor(rows).isneginf())
        self._read = read

    def forward(self, obs: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        state_B = obs.argmax(-1)
        lacking = self.get_buffer("lacking")
        rows = self.q[state_B]
        return self._read(rows.masked_fill(lacking[state_B], LACKS) if lacking.any() else rows, **kwargs)


def values(q_BA: Tensor) -> dict[str, Tensor]:
    return {"logit": q_BA}


def twins(q_BCA: Tensor) -> dict[str, Tensor]:
    return {"q_value": q_BCA.transpose(0, 1), "logit": q_BCA[:, 0]}


def quantiles(q_BAK: Tensor) -> dict[str, Tensor]:
    tau_K1 = ((torch.arange(q_BAK.shape[-1]) + 0.5) / q_BAK.shape[-1])[:, None]
    return {"logit": q_BAK.mean(-1), "q": q_BAK, "tau": tau_K1.expand(len(q_BAK), -1, -1)}


def atoms(log_p_BAK: Tensor) -> dict[str, Tensor]:
    p_BAK = log_p_BAK.softmax(-1)
    return {"logit": p_BAK @ torch.tensor([0.0, 2.0, 4.0]), "distribution": p_BAK}


def lines(q_BA2: Tensor, tau: Tensor | None = None) -> dict[str, Tensor]:
    """Quantiles a + b tau; K is 2 while acting."""
    if tau is None:
        tau = torch.tensor([0.25, 0.75]).expand(len(q_BA2), -1)
    q_KBA = q_BA2[..., 0] + q_BA2[..., 1] * tau.t()[..., None]
    return {"logit": q_KBA.mean(0), "q": q_KBA, "quantiles": tau.t()[..., None]}


class Problem(NamedTuple):
    """Tables of the online and the target network, the actions of both steps, and the discount of what follows."""

    read: Callable[..., dict[str, Tensor]]
    online: Any
    target: Any
    action: Any
    gamma: float
    keys: str = ""


# Temperature 1: the target's policy is 1/4, 3/4 in state 0, the other way round in state 1; the soft value is log 4.
SOFT = ([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]], [[0.0, LOG3, -100.0], [LOG3, 0.0, -100.0]], [1, 1], 0.9)
BRANCHES = (
    [[[1.0, 2.0, LACKS], [3.0, 4.0, 5.0]], [[9.0, 7.0, LACKS], [0.0, 1.0, 0.0]]],
    [[[0.0, 0.0, LACKS], [0.0, 0.0, 0.0]], [[2.0, 3.0, LACKS], [5.0, 4.0, 8.0]]],
)
# Probabilities of three atoms, as logarithms. Online, action 1 is the best in state 1; the target prefers action 0.
ATOMS, TARGET_ATOMS = (
    torch.tensor(rows).log().tolist()
    for rows in (
        [[[0.25, 0.25, 0.5], EVEN], [[0.5, 0.5, 1e-9], [1e-9, 0.5, 0.5]]],
        [[EVEN, EVEN], [[1e-9, 0.25, 0.75], [0.5, 0.5, 1e-9]]],
    )
)
PROBLEMS = {
    "dqn": Problem(values, [[1.0, 2, 3], [4, 0, 2]], [[0.0, 5, 1], [1, 2, 8]], [1, 2], 0.9),
    "mdqn": Problem(values, *SOFT, "entropy_tau=1.0 m_alpha=0.5 discount_factor=0.9 nstep=1"),
    "sql": Problem(values, *SOFT, "learn.alpha=1.0"),
    # The smaller targets are 0 and 0 in state 0, 0 and log 3 in state 1: policies 1/2, 1/2 and 1/4, 3/4.
    "sqn": Problem(
        twins, [[[1.0, 2], [0, -1]], [[3, 4], [1, 0]]], [[[0.0, 7], [1, 0]], [[0, 5], [2, LOG3]]], [1, 0], 0.9,
        "learn.alpha=1.0 discount_factor=0.9",
    ),
    "bdq": Problem(values, *BRANCHES, [[1, 0], [0, 2]], 0.9, "discount_factor=0.9"),
    "qrdqn": Problem(
        quantiles, [[[0.0, 2], [1, 3]], [[3, 5], [0, 0]]], [[[0.0, 0], [0, 0]], [[0, 2], [4, 6]]], [1, 0], 0.5
    ),
    "c51": Problem(atoms, ATOMS, TARGET_ATOMS, [0, 0], 0.5, "model.v_min=0.0 model.v_max=4.0 model.n_atom=3"),
    "iqn": Problem(
        lines, [[[0.0, 0], [1, 4]], [[3, 2], [0, 10]]], [[[0.0, 0], [0, 0]], [[4, 0], [0, 2]]], [1, 0], 0.5,
        "model.num_quantiles=2",
    ),
    "discrete_cql": Problem(quantiles, [[[1.0], [3]], [[4], [0]]], [[[0.0], [5]], [[2], [8]]], [1, 0], 0.9),
}  # fmt: skip


def table_policy(kind: str, *overrides: str) -> Any:
    problem = PROBLEMS[kind]
    policy = make_policy(*problem.keys.split(), *overrides, model=Table(problem.online, problem.read), kind=kind)
    target_of(policy)["q"].copy_(torch.tensor(problem.target).nan_to_num(neginf=0.0))
    return policy


def table_batch(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor(PROBLEMS[kind].action if kind in PROBLEMS else [1, 0]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.full((2,), PROBLEMS[kind].gamma if kind in PROBLEMS else 0.5),
        **more,
    }


# DQN, double: the online argmax in state 1 is action 0, worth 1 to the target: 1 + 0.9 * 1 = 1.9 against Q = 2.
#   Not double: the target's own maximum is 8: 1 + 0.9 * 8 = 8.2 against 2. The terminal step: -1 against Q = 2.
# M-DQN: action 1 has probability 3/4 in state 0: 1 + 0.5 log 3/4 + 0.9 log 4 - 2. In state 1 it has probability 1/4,
#   and log 1/4 = -1.39 is clipped at -1: -1 - 0.5 - 4.
MDQN = [1.0 + 0.5 * LN(0.75) + 0.9 * LOG4 - 2.0, -5.5]
# Soft Q-learning: 1 + 0.9 log 4 - 2, and -1 - 4 at the end.
SQL = [-1.0 + 0.9 * LOG4, -5.0]
# SQN: y = 1 + 0.9 log 4 against 2 and -1; -1 against 3 and 1 at the end.
SQN = [[1 + 0.9 * LOG4 - 2, -4.0], [1 + 0.9 * LOG4 + 1, -2.0]]
# BDQ: in state 1 the online network chooses 0 and 1, worth 2 and 4 to the target: mean 3, own targets 2.8 and 4.6. The
#   target's own choice is worth 3 and 8: mean 5.5. Q is 2 and 3. The terminal step: -1 against 9 and 0.
BDQ = {"": [1.7, 0.7], "learn.mean_target=False": [2.8 - 2, 4.6 - 3], "double=False": [3.95, 2.95]}
# QR-DQN: the probabilities are 1/4 and 3/4. Sample 0 has the quantiles 1 and 3.
#   Double: online, action 0 is the best in state 1; the target's quantiles of it are 0 and 2, the targets 1 and 2.
#     u of 1: 0, 1; u of 3: -2, -1. L with kappa 1: 1/4 (0 + 0.5) / 2 + 1/4 (1.5 + 0.5) / 2 = 0.0625 + 0.25
#     with kappa 0, |u|: 1/4 (0 + 1) / 2 + 1/4 (2 + 1) / 2 = 0.125 + 0.375
#   Not double: the target prefers action 1, 4 and 6, so the targets are 3 and 4.
#     u of 1: 2, 3; u of 3: 0, 1. kappa 1: 1/4 (1.5 + 2.5) / 2 + 3/4 (0 + 0.5) / 2 = 0.5 + 0.1875
#   Sample 1 has 3 and 5, and the target -1: u = -4 and -6. kappa 1: 3/4 3.5 + 1/4 5.5 = 4; kappa 0: 3 + 1.5 = 4.5
#   The gradient of |u| is half of the mean over targets of 1{u < 0} - tau. Sample 0: the quantile 1 has one target
#   above it and one that it equals (|u| has the derivative 0 there): -1/4 / 2; 3 has both below: 1/4. Sample 1: 3/4
#   and 1/4.
# C51, sample 0: with a reward of 1 and the discount 1/2 the atoms become 1, 2, 3.
#   Double: action 1, the target's 1/2, 1/2, 0. 1 goes to 0 and 2 by halves: 1/4, 3/4, 0. -log 1/4 for both: log 4.
#   Not double: action 0, 0, 1/4, 3/4. 3 goes to 2 and 4 by halves: 0, 5/8, 3/8: 5/8 log 4 + 3/8 log 2.
#   Sample 1 ends with 1: 1/2, 1/2, 0, each predicted with 1/2: log 2, the target's entropy, and so a priority of 0.
#   A priority is sum_i m_i log m_i / p_i.
C51_REWARD = {"reward": torch.ones(2)}
# IQN, sample 0 has the quantiles 1 + 4 tau: 2 and 4 for 1/4 and 3/4.
#   Double: 1 + 1/2 (2 tau') for 1/2 and 1: the targets 1.5 and 2. u of 2: -0.5, 0; u of 4: -2.5, -2.
#     kappa 1: 3/4 0.125 / 2 + 1/4 (2 + 1.5) / 2 = 0.046875 + 0.4375
#     kappa 2: 3/4 0.125 / 2 + 1/4 (3 + 2) / 2, over kappa: 0.0234375 + 0.3125
#   Not double: 1 + 1/2 4 = 3 twice. u of 2: 1; u of 4: -1. 1/4 0.5 + 1/4 0.5
#   Sample 1 has 4 twice, the target -1: u = -5, weighed by 1/2. kappa 1: 2 * 1/2 4.5; kappa 2: 2 * 1/2 8 / 2
TAU = {"online": torch.tensor([[0.25, 0.75], [0.5, 0.5]]), "target": torch.tensor([[0.5, 1.0], [0.5, 1.0]])}
IQN_NOISE = {"noise": {"tau": TAU}}
# Discrete CQL: one quantile, the median, is weighed by 1/2. 1 + 0.9 * 2 = 2.8 against Q = 3; the terminal step's -1
#   against Q = 4. Huber's L(0.2) = 0.02, L(5) = 4.5, or with a kappa of 10 12.5. Its term is log(e^1 + e^3) - 3 and
#   log(e^4 + e^0) - 4. Its gradient is 0.5 / 2 (p of the other action) on both sides.
GAP = (LN(1 + EXP(-2)) + LN(1 + EXP(-4))) / 2
FIRST, SECOND = (0.25 / (1 + EXP(gap)) for gap in (2, 4))


class Case(NamedTuple):
    kind: str
    keys: str
    loss: float
    priority: list[float] | None = None
    figures: dict[str, float] = {}  # means of what is logged
    gradient: Any = None
    batch: dict[str, Any] = {}


def squares(*errors: float) -> dict[str, Any]:
    return dict(loss=sum(error**2 for error in errors) / 2, priority=[abs(error) for error in errors])


def of_branches(keys: str) -> dict[str, Any]:
    errors = [*BDQ[keys], -10.0, -1.0]
    priority = [sum(map(abs, pair)) / 2 for pair in (errors[:2], errors[2:])]
    return dict(keys=keys, loss=sum(error**2 for error in errors) / 4, priority=priority, figures={"q_value": 3.5})


CASES = [
    Case("dqn", "double=True", **squares(-0.1, -3.0), figures={"q_value": 2.0}, gradient=[[0, 0.1, 0], [0, 0, 3.0]]),
    Case("dqn", "double=False", **squares(6.2, -3.0)),
    Case(
        "mdqn", "", **squares(*MDQN), figures={"action_gap": LOG3, "clip_frac": 0.5},
        gradient=[[0, -MDQN[0], 0], [0, -MDQN[1], 0]],
    ),
    Case("sql", "", **squares(*SQL), figures={"soft_value": LOG4}, gradient=[[0, -SQL[0], 0], [0, -SQL[1], 0]]),
    Case(
        "sqn", "", sum(error**2 for errors in SQN for error in errors) / 2,
        [(abs(one) + abs(other)) / 2 for one, other in zip(*SQN, strict=True)],
        {"entropy": (LOG4 - 0.75 * LOG3 + LOG2) / 2, "soft_value": (LOG4 + LOG2) / 2},
        [[[0, -SQN[0][0]], [0, -SQN[1][0]]], [[4.0, 0], [2.0, 0]]],
    ),
    Case("bdq", **of_branches(""), gradient=[[[0, -0.85, 0], [-0.35, 0, 0]], [[5.0, 0, 0], [0, 0, 0.5]]]),
    Case("bdq", **of_branches("learn.mean_target=False")),
    Case("bdq", **of_branches("double=False")),
    Case("qrdqn", "", (0.3125 + 4.0) / 2, [0.3125, 4.0], {"q_value": 7 / 4}),
    Case("qrdqn", "double=False", (0.6875 + 4.0) / 2, [0.6875, 4.0]),
    Case(
        "qrdqn", "learn.kappa=0.0", (0.5 + 4.5) / 2, [0.5, 4.5],
        gradient=[[[0.0, 0.0], [-0.0625, 0.125]], [[0.375, 0.125], [0.0, 0.0]]],
    ),
    Case(
        "c51", "double=True", (LOG4 + LOG2) / 2, [3 / 4 * LOG3, 0.0], {"q_value": 8.5 / 4, "clipped_share": 0.0},
        batch=C51_REWARD,
    ),
    Case(
        "c51", "double=False", (5 / 8 * LOG4 + 3 / 8 * LOG2 + LOG2) / 2,
        [5 / 8 * LN(5 / 2) + 3 / 8 * LN(3 / 4), 0.0], batch=C51_REWARD,
    ),
    Case("iqn", "learn.kappa=1.0", (0.484375 + 4.5) / 2, [0.484375, 4.5], batch=IQN_NOISE),
    Case("iqn", "learn.kappa=1.0 double=False", (0.25 + 4.5) / 2, [0.25, 4.5], batch=IQN_NOISE),
    Case("iqn", "learn.kappa=2.0", (0.3359375 + 4.0) / 2, [0.3359375, 4.0], batch=IQN_NOISE),
    Case(
        "discrete_cql", "learn.kappa=1.0 learn.min_q_weight=0.5", 1.13 + 0.5 * GAP,
        figures={"td_loss": 1.13, "min_q_loss": GAP, "q_value": 2.0},
        gradient=[[[FIRST], [0.05 - FIRST]], [[0.25 - SECOND], [SECOND]]],
    ),
    Case("discrete_cql", "learn.kappa=10.0 learn.min_q_weight=0.0", 3.13),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {case.keys}")
def test_loss_priority_and_gradient_by_hand(case: Case) -> None:
    policy = table_policy(case.kind, *case.keys.split())
    loss, output = (policy._q_loss if case.kind == "sqn" else policy.loss)(table_batch(case.kind, **case.batch))
    assert loss.item() == pytest.approx(case.loss, rel=1e-5)
    if case.priority:
        assert output["priority"].tolist() == pytest.approx(case.priority, rel=1e-5, abs=1e-6)
    means = {key: output[key].double().mean().item() for key in case.figures}
    assert means == pytest.approx(case.figures, rel=1e-5, abs=1e-6)
    loss.backward()
    if case.gradient:
        torch.testing.assert_close(last_gradient(policy), torch.tensor(case.gradient).flatten())


# Probabilities of the actions in state 0 at temperature 1, and with epsilon 0.6: 0.4 of the former and evenly the rest.
@pytest.mark.parametrize(
    ("kind", "row", "shares"),
    [
        ("sql", [0.0, LOG3, -100.0], {0.0: [0.25, 0.75, 0.0], 0.6: [0.3, 0.5, 0.2]}),
        ("sqn", [[0.0, LOG3], [0.0, -9.0]], {0.0: [0.25, 0.75], 0.6: [0.4, 0.6]}),
    ],
)
def test_it_collects_from_the_softmax_and_evaluates_the_argmax(kind: str, row: Any, shares: Any) -> None:
    policy, obs = table_policy(kind), torch.eye(2)[:1].expand(20_000, 2)
    with torch.no_grad():
        policy.model.q[0] = torch.tensor(row)
    for eps, expected in shares.items():
        found = torch.bincount(policy.act(obs, eps=eps)["action"], minlength=len(expected)) / 20_000
        torch.testing.assert_close(found, torch.tensor(expected), atol=0.015, rtol=0)  # standard deviation 0.0035
    assert policy.act(obs[:3], explore=False)["action"].tolist() == [1, 1, 1]
