from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.model import PDQN, QAC, QACDIST, QVAC, ContinuousQAC, HybridQAC

SPACES: list[Any] = ["regression", "reparameterization"]


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("cls", [QAC, QVAC])
def test_every_mode_returns_the_documented_shapes(cls: type[QAC], space: Any, twin: bool) -> None:
    model, obs, action = cls(4, 2, space, twin), torch.randn(5, 4), torch.rand(5, 2)
    q = model({"obs": obs, "action": action}, mode="compute_critic")["q_value"]
    assert q.shape == (1 + twin, 5)
    torch.testing.assert_close(model.critic(obs, action=action, num=1), q[:1])
    output = model(obs, mode="compute_actor")
    if space == "regression":
        assert output["action"].shape == (5, 2)
    else:
        assert output["logit"]["mu"].shape == output["logit"]["sigma"].shape == (5, 2)
    if cls is QVAC:
        assert model(obs, mode="compute_value")["v_value"].shape == (5,)


def test_several_actions_of_a_state_are_valued_at_once() -> None:
    model, obs, action = QAC(3, 2, "reparameterization", twin_critic=True), torch.randn(5, 3), torch.rand(7, 5, 2)
    q = model.critic(obs, action=action)
    assert q.shape == (2, 7, 5)
    for k in range(7):
        torch.testing.assert_close(q[:, k], model.critic(obs, action=action[k]))


def test_actions_of_a_regression_and_mu_of_a_qvac_are_within_their_bounds() -> None:
    obs = torch.randn(50, 3) * 100
    hybrid = {"action_type_shape": 3, "action_args_shape": 2}
    outputs = [cls(3, 2, "regression")(obs, mode="compute_actor")["action"] for cls in (QAC, QVAC)]
    outputs.append(HybridQAC(3, hybrid)(obs, mode="compute_actor")["action_args"])
    outputs.append(PDQN(3, hybrid, [16, 8])(obs, mode="compute_continuous")["action_args"])
    for action in outputs:
        assert action.shape == (50, 2)
        assert 0.5 < action.abs().max() <= 1
    assert QAC(3, 2, "reparameterization")(obs, mode="compute_actor")["logit"]["mu"].abs().max() > 1
    logit = QVAC(3, 2, "reparameterization")(obs, mode="compute_actor")["logit"]
    assert logit["mu"].abs().max() <= 1
    assert (logit["sigma"] == logit["sigma"][0]).all()
    logit = QAC(3, 2, "reparameterization")(obs, mode="compute_actor")["logit"]
    assert (logit["sigma"] != logit["sigma"][0]).any()


def test_with_simba_the_heads_are_the_papers_networks() -> None:
    model, obs, action = QAC(3, 2, "reparameterization", True, encoder="simba"), torch.randn(7, 3), torch.rand(7, 2)
    x = torch.cat([obs, action], -1)
    first, *blocks, norm, last = list(model.critic.heads[1])  # type: ignore[call-overload]
    assert (first.out_features, len(blocks), blocks[0].one.out_features) == (512, 2, 2048)
    x = first(x)
    for block in blocks:
        normed = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
        x = x + block.two(torch.relu(block.one(normed)))
    torch.testing.assert_close(model.critic(obs, action=action)[1], last(norm(x)).squeeze(-1))
    first, *blocks, norm, last = list(model.actor.head.mlp)  # type: ignore[arg-type]
    assert (first.out_features, len(blocks)) == (128, 1)
    torch.testing.assert_close(first.weight.T @ first.weight, torch.eye(3))  # orthogonal at first
    assert not first.bias.any()  # as flax's layers begin, with which the authors' code is written
    options = dict(actor_head_hidden_size=16, critic_head_hidden_size=8, critic_head_layer_num=3)
    small = QAC(3, 2, "regression", encoder=dict(type="simba"), **options)  # type: ignore[arg-type]
    assert (small.actor_sizes, small.critic_sizes) == ([16, 16], [8] * 4)


def test_a_distributional_critic_returns_the_distribution_and_its_mean() -> None:
    model, obs, action = QACDIST(4, 2, v_min=-3.0, v_max=1.0, n_atom=5), torch.randn(6, 4), torch.rand(6, 2)
    output = model({"obs": obs, "action": action}, mode="compute_critic")
    probability = output["distribution"]
    assert probability.shape == (6, 5)
    torch.testing.assert_close(probability.sum(-1), torch.ones(6))
    mean = sum(probability[:, k] * atom for k, atom in enumerate([-3.0, -2.0, -1.0, 0.0, 1.0]))
    torch.testing.assert_close(output["q_value"], mean)
    several = model.critic(obs, action=torch.rand(7, 6, 2))
    assert (several["q_value"].shape, several["logit"].shape) == ((7, 6), (7, 6, 5))
    assert model(obs, mode="compute_actor")["action"].shape == (6, 2)


def test_a_later_name_of_di_engine_is_the_same_class() -> None:
    assert ContinuousQAC is QAC
