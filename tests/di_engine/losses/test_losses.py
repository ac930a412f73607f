"""What all losses have in common: weights, gradients, sums of rewards, ends of episodes, shapes, constant arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss
from torch.utils._pytree import tree_leaves, tree_map

from ding_lite import rl_utils as rl
from ding_lite.di_engine.losses.policy_gradient import vtrace_error

T, B, A, D, K, J = 3, 6, 4, 2, 5, 7  # steps, samples, actions, branches or dimensions, quantiles or atoms, targets
GAMMA = 0.9
GEN = torch.Generator()


def real(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GEN, dtype=torch.float64)


def index(*shape: int) -> Tensor:
    return torch.randint(A, shape, generator=GEN)


def flag(*shape: int) -> Tensor:
    return torch.rand(shape, generator=GEN) < 0.4


def normal(*shape: int) -> dict[str, Tensor]:
    return {"mu": real(*shape, D), "sigma": real(*shape, D).exp()}


class Loss(NamedTuple):
    """A loss of DI-engine, and an example of its data.

    Attributes:
        function: returns the loss, or a tuple of losses and further results.
        data: creates the example.
        learned: fields through which the gradient flows.
        following: the field of values or distributions after the steps, which get no gradient.
        options: further arguments.
        refused: changes of the example that the loss must refuse.
    """

    function: Callable[..., Any]
    data: Callable[[], Any]
    learned: tuple[str, ...]
    following: str | None = None
    options: Mapping[str, Any] = {}
    refused: tuple[dict[str, Any], ...] = ()

    def __call__(self, data: Any, **options: Any) -> list[Tensor]:
        """Return the loss, or each of the losses, then the further results."""
        return tree_leaves(self.function(data, **(dict(self.options) | options)))

    def example(self, **changes: Any) -> Any:
        """Return the same example each time."""
        GEN.manual_seed(0)
        return self.data()._replace(**changes)


def step(*branches: int) -> dict[str, Tensor]:
    actions = {"action": index(B, *branches), "next_n_action": index(B, *branches)}
    return actions | {"reward": real(T, B), "done": flag(B)}


def one_step() -> dict[str, Tensor]:
    return {"act": index(B), "reward": real(B), "done": flag(B)}


N_STEP = {"gamma": GAMMA, "nstep": T}
ATOMS = {"gamma": GAMMA, "v_min": -2.0, "v_max": 3.0, "n_atom": K}
FLAT_REWARD = {"reward": torch.zeros(B).double()}  # without cum_reward
COLUMN = torch.zeros(B, 1).double()
BY_STEPS = {
    "q_nstep_td_error": Loss(
        rl.q_nstep_td_error, lambda: rl.q_nstep_td_data(q=real(B, A), next_n_q=real(B, A), **step()), ("q",),
        "next_n_q", N_STEP, ({"next_n_q": real(1, A)}, FLAT_REWARD),
    ),
    "q_nstep_td_error_with_rescale": Loss(
        rl.q_nstep_td_error_with_rescale, lambda: rl.q_nstep_td_data(q=real(B, A), next_n_q=real(B, A), **step()),
        ("q",), "next_n_q", N_STEP, ({"next_n_q": real(1, A)}, FLAT_REWARD),
    ),
    "q_nstep_sql_td_error": Loss(
        rl.q_nstep_sql_td_error, lambda: rl.q_nstep_td_data(q=real(B, A), next_n_q=real(B, A), **step()), ("q",),
        "next_n_q", N_STEP | {"alpha": 0.3}, ({"next_n_q": real(1, A)}, FLAT_REWARD),
    ),
    "bdq_nstep_td_error": Loss(
        rl.bdq_nstep_td_error, lambda: rl.q_nstep_td_data(q=real(B, D, A), next_n_q=real(B, D, A), **step(D)), ("q",),
        "next_n_q", N_STEP, ({"next_n_q": real(B, A)}, FLAT_REWARD),
    ),
    "qrdqn_nstep_td_error": Loss(
        rl.qrdqn_nstep_td_error,
        lambda: rl.qrdqn_nstep_td_data(q=real(B, A, K), next_n_q=real(B, A, K), tau=real(B, K, 1).sigmoid(), **step()),
        ("q",), "next_n_q", N_STEP, ({"next_n_q": real(B, A, 1)}, FLAT_REWARD),
    ),
    "iqn_nstep_td_error": Loss(
        rl.iqn_nstep_td_error,
        lambda: rl.iqn_nstep_td_data(
            q=real(K, B, A), next_n_q=real(J, B, A), replay_quantiles=real(K, B, 1).sigmoid(), **step()
        ),
        ("q",), "next_n_q", N_STEP, ({"next_n_q": real(B, J, A)}, FLAT_REWARD),
    ),
    "fqf_nstep_td_error": Loss(
        rl.fqf_nstep_td_error,
        lambda: rl.fqf_nstep_td_data(
            q=real(B, K, A), next_n_q=real(B, J, A), quantiles_hats=real(B, K).sigmoid(), **step()
        ),
        ("q",), "next_n_q", N_STEP, ({"next_n_q": real(B, J, 2)}, FLAT_REWARD),
    ),
    "dist_nstep_td_error": Loss(
        rl.dist_nstep_td_error,
        lambda: rl.dist_nstep_td_data(
            dist=real(B, A, K).softmax(-1), next_n_dist=real(B, A, K).softmax(-1), next_n_act=index(B),
            act=index(B), reward=real(T, B), done=flag(B),
        ),
        ("dist",), "next_n_dist", ATOMS | {"nstep": T}, ({"next_n_dist": real(B, A, 2)}, FLAT_REWARD),
    ),
}  # fmt: skip
LOSSES = BY_STEPS | {
    "q_1step_td_error": Loss(
        rl.q_1step_td_error,
        lambda: rl.q_1step_td_data(q=real(B, A), next_q=real(B, A), next_act=index(B), **one_step()), ("q",),
        "next_q", {"gamma": GAMMA}, ({"next_q": real(1, A)}, {"reward": COLUMN}),
    ),
    "q_v_1step_td_error": Loss(
        rl.q_v_1step_td_error, lambda: rl.q_v_1step_td_data(q=real(B, A), v=real(B), **one_step()), ("q",), "v",
        {"gamma": GAMMA}, ({"v": COLUMN}, {"reward": COLUMN[:1, 0]}, {"weight": COLUMN}),
    ),
    "v_1step_td_error": Loss(
        rl.v_1step_td_error,
        lambda: rl.v_1step_td_data(v=real(B), next_v=real(B), reward=real(B), done=flag(B)), ("v",), "next_v",
        {"gamma": GAMMA}, ({"next_v": COLUMN}, {"reward": COLUMN}, {"weight": COLUMN}),
    ),
    "v_nstep_td_error": Loss(
        rl.v_nstep_td_error,
        lambda: rl.v_nstep_td_data(v=real(B), next_n_v=real(B), reward=real(T, B), done=flag(B)), ("v",), "next_n_v",
        N_STEP, ({"next_n_v": COLUMN}, {"reward": real(T - 1, B)}, {"weight": COLUMN}),
    ),
    "m_q_1step_td_error": Loss(
        lambda data, **options: (result := rl.m_q_1step_td_error(data, **options))[:2] + result[3:],  # not the gap
        lambda: rl.m_q_1step_td_data(q=real(B, A), target_q=real(B, A), next_q=real(B, A), **one_step()), ("q",),
        "next_q", {"gamma": GAMMA, "tau": 0.5, "alpha": 0.9}, ({"next_q": real(1, A)}, {"reward": COLUMN}),
    ),
    "dist_1step_td_error": Loss(
        rl.dist_1step_td_error,
        lambda: rl.dist_1step_td_data(
            dist=real(B, A, K).softmax(-1), next_dist=real(B, A, K).softmax(-1), next_act=index(B), **one_step()
        ),
        ("dist",), "next_dist", ATOMS, ({"next_dist": real(B, A, 2)}, {"reward": COLUMN}),
    ),
    "td_lambda_error": Loss(
        rl.td_lambda_error, lambda: rl.td_lambda_data(value=real(T + 1, B), reward=real(T, B)), ("value",),
        refused=({"reward": real(T + 1, B)},),
    ),
    "pg_error": Loss(
        rl.pg_error, lambda: rl.pg_data(logit=real(B, A), action=index(B), return_=real(B)), ("logit",),
        refused=({"return_": COLUMN}, {"weight": COLUMN}, {"action": index(B, 1)}),
    ),
    "a2c_error": Loss(
        rl.a2c_error,
        lambda: rl.a2c_data(logit=normal(B), action=real(B, D), value=real(B), adv=real(B), return_=real(B)),
        ("logit", "value"), refused=({"value": COLUMN}, {"weight": COLUMN}),
    ),
    "ppo_policy_error": Loss(
        rl.ppo_policy_error,
        lambda: rl.ppo_policy_data(logit_new=normal(B), logit_old=normal(B), action=real(B, D), adv=real(B)),
        ("logit_new",), "logit_old", {"dual_clip": 1.5},
        ({"adv": COLUMN}, {"weight": COLUMN}, {"logit_old": normal(B, 1)}),
    ),
    "ppo_value_error": Loss(
        rl.ppo_value_error, lambda: rl.ppo_value_data(value_new=real(B), value_old=real(B), return_=real(B)),
        ("value_new",), "value_old", {}, ({"value_old": COLUMN}, {"return_": COLUMN}, {"weight": COLUMN}),
    ),
    "ppo_error": Loss(
        rl.ppo_error,
        lambda: rl.ppo_data(
            logit_new=real(B, A), logit_old=real(B, A), action=index(B), value_new=real(B), value_old=real(B),
            adv=real(B), return_=real(B),
        ),
        ("logit_new", "value_new"), "logit_old", {}, ({"value_new": COLUMN}, {"value_old": COLUMN}),
    ),
    "vtrace_error": Loss(
        vtrace_error,
        lambda: rl.vtrace_data(
            target_output=real(T, B, A), behaviour_output=real(T, B, A), action=index(T, B), value=real(T + 1, B),
            reward=real(T, B), next_value=real(T, B), done=flag(T, B),
        ),
        ("target_output", "value"), "next_value",
        refused=({"reward": real(T)}, {"weight": real(1, 1)}, {"next_value": None, "traj_flag": flag(T, B)}),
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", LOSSES)
# Targets of others depend on the learned value, as constants.
SMOOTH = pytest.mark.parametrize("name", sorted({*LOSSES} - {"vtrace_error", "td_lambda_error"}))
# A probability is finite; the losses of policies follow no step.
NEXT = pytest.mark.parametrize(
    "name", [key for key, loss in LOSSES.items() if loss.following and "next" in loss.following and "dist" not in key]
)


@EVERY
def test_weights_enter_every_loss_in_proportion_and_no_other_result(name: str) -> None:
    loss = LOSSES[name]
    one, two = torch.linspace(0.5, 2.0, 2 * B).double().view(2, B)
    results = [loss(loss.example(weight=weight)) for weight in (one, two, one + two, torch.ones_like(one), None)]
    for first, second, both, ones, none in zip(*results, strict=True):
        if first.ndim == 0:
            torch.testing.assert_close(first + second, both)
            assert not torch.isclose(first, second)
        else:  # of each sample as it is
            assert torch.equal(first, both)
        torch.testing.assert_close(ones, none)


@EVERY
def test_the_gradient_flows_through_what_is_learned_alone(name: str) -> None:
    loss = LOSSES[name]
    data = loss.example()
    fields = [*loss.learned, *([loss.following] if loss.following else [])]
    data = data._replace(**{key: tree_map(lambda x: x.requires_grad_(), getattr(data, key)) for key in fields})
    total, *others = loss(data)
    losses = [total, *(other for other in others if other.requires_grad)]
    assert all(each.ndim == 0 for each in losses)
    torch.stack(losses).sum().backward()
    reached = [key for key in fields if all(leaf.grad is not None for leaf in tree_leaves(getattr(data, key)))]
    assert reached == list(loss.learned)
    if loss.following:
        assert all(leaf.grad is None for leaf in tree_leaves(getattr(data, loss.following)))


@SMOOTH
def test_a_gradient_is_that_of_finite_differences(name: str) -> None:
    loss = LOSSES[name]
    data = loss.example(weight=real(B).abs())
    leaves = [leaf.requires_grad_() for key in loss.learned for leaf in tree_leaves(getattr(data, key))]
    torch.autograd.gradcheck(lambda *_: [x for x in loss(data) if x.requires_grad], leaves)


@EVERY
def test_the_arguments_are_not_written_into(name: str) -> None:
    loss = LOSSES[name]
    weight = torch.ones(B).double()
    data, before = loss.example(weight=weight), loss.example(weight=weight.clone())
    loss(data)
    pairs = zip(tree_leaves(data), tree_leaves(before), strict=True)
    assert all(one is other is None or torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, loss in LOSSES.items() for change in loss.refused]
)
def test_shapes_that_would_broadcast_or_do_not_fit_are_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|must|needs next_value"):
        LOSSES[name](LOSSES[name].example(**change))


@pytest.mark.parametrize("name", BY_STEPS)
def test_rewards_of_n_steps_are_those_that_are_already_summed(name: str) -> None:
    loss = BY_STEPS[name]
    data = loss.example()
    total = sum(GAMMA**t * data.reward[t] for t in range(T))
    discount = torch.full((B,), GAMMA**T).double()
    summed = loss(data._replace(reward=total), cum_reward=True, value_gamma=discount, nstep=1)
    torch.testing.assert_close(loss(data), summed)
    ended = loss(data._replace(done=torch.ones(B)))
    torch.testing.assert_close(loss(data, value_gamma=torch.zeros(B).double())[0], ended[0])


@NEXT
def test_a_value_after_the_end_does_not_count_even_if_it_is_not_finite(name: str) -> None:
    loss = LOSSES[name]
    data = loss.example()
    data = data._replace(done=torch.ones_like(data.done))
    infinite = torch.full_like(getattr(data, str(loss.following)), torch.inf)
    torch.testing.assert_close(loss(data._replace(**{str(loss.following): infinite}))[0], loss(data)[0])


@pytest.mark.parametrize(
    "name", [name for name in LOSSES if "criterion" in signature(LOSSES[name].function).parameters]
)
def test_a_criterion_is_a_function_or_a_module_that_does_not_reduce(name: str) -> None:
    loss = LOSSES[name]
    data, usual = loss.example(), loss(loss.example())
    by_function, by_module = (loss(data, criterion=each) for each in (l1_loss, nn.L1Loss(reduction="none")))
    assert all(map(torch.equal, by_function, by_module))
    assert not torch.isclose(by_function[0], usual[0])
    with pytest.raises(ValueError, match=r"criterion .*MSELoss\(\) with reduction='none'"):
        loss(data, criterion=nn.MSELoss())
