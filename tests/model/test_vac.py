from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import VAC
from ding_lite.model.actor_heads import LEAST_SIGMA
from ding_lite.rl_utils.distribution import log_prob
from ding_lite.utils.tree import tree_map

HYBRID = {"action_type_shape": 3, "action_args_shape": 2}
SPACES: dict[str, Any] = {"discrete": 3, "multi_discrete": [2, 3, 2], "continuous": 2, "hybrid": HYBRID}
IMAGE: dict[str, Any] = dict(obs_shape=(4, 36, 36), encoder_hidden_size_list=[8, 8, 8, 16])


def flatten(output: dict[str, Any]) -> dict[str, Tensor]:
    """Leaves of nested dicts under dotted names."""
    flat: dict[str, Tensor] = {}
    for key, value in output.items():
        inner = flatten(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{key}.{name}".rstrip("."): leaf for name, leaf in inner.items()}
    return flat


@pytest.mark.parametrize("share_encoder", [True, False])
@pytest.mark.parametrize(
    ("action_space", "shapes"),
    [
        ("discrete", {"logit": (5, 3)}),
        ("multi_discrete", {"logit.branches": (5, 3, 3)}),
        ("continuous", {"logit.mu": (5, 2), "logit.sigma": (5, 2)}),
        ("hybrid", {"logit.action_type": (5, 3), "logit.action_args.mu": (5, 2), "logit.action_args.sigma": (5, 2)}),
    ],
)
def test_every_mode_returns_its_part_in_the_documented_shapes(
    action_space: str, shapes: dict[str, Any], share_encoder: bool
) -> None:
    model = VAC(4, SPACES[action_space], action_space, share_encoder)
    obs = torch.randn(5, 4)
    both, actor, critic = flatten(model(obs)), flatten(model(obs, "compute_actor")), model(obs, mode="compute_critic")
    assert {key: tuple(value.shape) for key, value in actor.items()} == shapes
    assert {key: tuple(value.shape) for key, value in both.items()} == shapes | {"value": (5,)}
    assert list(critic) == ["value"]
    for key, value in (actor | critic).items():
        assert torch.equal(value, both[key])
    assert torch.equal(model.compute_critic(obs)["value"], critic["value"])


def test_sharing_decides_whether_the_value_trains_the_policys_features() -> None:
    for share, reached in ((True, True), (False, False)):
        model: Any = VAC(4, 2, share_encoder=share)
        model(torch.randn(3, 4))["value"].sum().backward()
        encoder = model.encoder if share else model.actor_encoder
        assert any(parameter.grad is not None for parameter in encoder.parameters()) == reached
        assert not any(parameter.grad is not None for parameter in model.actor_head.parameters())


def sigma_of(obs: Tensor, model: VAC) -> Tensor:
    return model(obs)["logit"]["sigma"]


def test_independent_sigma_is_a_parameter_of_its_own() -> None:
    model: Any = VAC(4, 2, "continuous")
    model.actor_head.log_sigma_param.data.copy_(torch.tensor([[0.0, math.log(2)]]))
    sigma = sigma_of(torch.randn(3, 4), model)
    torch.testing.assert_close(sigma, torch.tensor([[1.0, 2.0]] * 3))
    sigma.sum().backward()  # d exp(s) / ds = exp(s), three rows
    torch.testing.assert_close(model.actor_head.log_sigma_param.grad, torch.tensor([[3.0, 6.0]]))


def test_scalar_sigma_is_the_parameter_itself_or_its_bound_and_can_return() -> None:
    model: Any = VAC(4, 3, "continuous", sigma_type="scalar")
    model.actor_head.sigma_param.data.copy_(torch.tensor([[0.7, -0.3, -1e6]]))
    sigma = sigma_of(torch.randn(2, 4), model)
    assert torch.equal(sigma, torch.tensor([[0.7, LEAST_SIGMA, LEAST_SIGMA]] * 2))
    sigma.sum().backward()  # 1 for each of two rows, below the bound too
    assert torch.equal(model.actor_head.sigma_param.grad, torch.full((1, 3), 2.0))


# With mu = 0 and the action 1, -log p = ln sigma + 1 / (2 sigma^2) + const has the slope 1 / sigma - 1 / sigma^3.
@pytest.mark.parametrize(("sigma_type", "sigma", "slope"), [("scalar", 2.0, 3 / 8), ("independent", 2.0, 3 / 4)])
def test_the_gradient_of_a_log_probability_by_hand(sigma_type: Any, sigma: float, slope: float) -> None:
    model: Any = VAC(4, 1, "continuous", sigma_type=sigma_type, init_sigma=sigma)
    model.actor_head.mlp[-1].weight.data.zero_()
    model.actor_head.mlp[-1].bias.data.zero_()
    (-log_prob(model(torch.randn(1, 4))["logit"], torch.ones(1, 1))).sum().backward()
    (parameter,) = (value for name, value in model.named_parameters() if "sigma" in name)
    assert parameter.grad.item() == pytest.approx(slope)  # of the logarithm: times sigma


def test_updates_that_push_a_scalar_sigma_below_zero_leave_finite_log_probabilities() -> None:
    model: Any = VAC(4, 2, "continuous", sigma_type="scalar", init_sigma=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    obs = torch.randn(8, 4)
    for _ in range(10):  # the mean action itself becomes more likely, the smaller sigma is
        logit = model(obs)["logit"]
        loss = -log_prob(logit, logit["mu"].detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert loss.isfinite()
    assert (model.actor_head.sigma_param < 0).all()
    assert torch.equal(model(obs)["logit"]["sigma"], torch.full((8, 2), LEAST_SIGMA))


@pytest.mark.parametrize("sigma_type", ["independent", "scalar"])
@pytest.mark.parametrize(("init_sigma", "first", "orthogonal"), [(None, 1.0, math.exp(-0.5)), (0.25, 0.25, 0.25)])
def test_the_first_sigma(sigma_type: Any, init_sigma: float | None, first: float, orthogonal: float) -> None:
    model = VAC(4, HYBRID, "hybrid", sigma_type=sigma_type, init_sigma=init_sigma)
    for expected in (first, orthogonal):
        sigma = model(torch.randn(3, 4))["logit"]["action_args"]["sigma"]
        torch.testing.assert_close(sigma, torch.full((3, 2), expected))
        model.init_parameters()


def test_conditioned_sigma_depends_on_the_observation_within_bounds() -> None:
    model: Any = VAC(4, 2, "continuous", sigma_type="conditioned")
    obs = torch.randn(3, 4)
    assert len(sigma_of(obs, model).unique()) == 6
    last = model.actor_head.mlp[-1]
    assert last.weight.shape == (4, 64)
    for bias, bound in ((1e3, 2.0), (-1e3, -20.0)):
        last.bias.data[2:] = bias
        torch.testing.assert_close(sigma_of(obs, model), torch.full((3, 2), math.exp(bound)))
    assert model(obs)["logit"]["mu"].abs().max() < 10  # the other half of the layer


def test_fixed_sigma_is_the_given_value() -> None:
    model = VAC(4, HYBRID, "hybrid", sigma_type="fixed", fixed_sigma_value=0.7)
    sigma = model(torch.randn(3, 4))["logit"]["action_args"]["sigma"]
    torch.testing.assert_close(sigma, torch.full((3, 2), 0.7))
    assert not sigma.requires_grad


@pytest.mark.parametrize("shape", [[2, 3], (2, 3)])
def test_several_choices_are_branches_that_forbid_what_they_lack(shape: Any) -> None:
    for space in ("discrete", "multi_discrete"):  # DI-engine's name for both is the first
        branches = VAC(4, shape, space)(torch.randn(5, 4))["logit"]["branches"]
        assert torch.isneginf(branches).nonzero().tolist() == [[row, 0, 2] for row in range(5)]
    assert VAC(4, [3], "multi_discrete")(torch.randn(5, 4))["logit"]["branches"].shape == (5, 1, 3)
    assert VAC(4, [3], "discrete")(torch.randn(5, 4))["logit"].shape == (5, 3)


@pytest.mark.parametrize("bound_type", [None, "tanh"])
def test_a_bound_keeps_mu_within_one(bound_type: Any) -> None:
    model: Any = VAC(4, 2, "continuous", bound_type=bound_type)
    model.actor_head.mlp[-1].bias.data.fill_(3.0)
    mu = model(torch.zeros(1, 4))["logit"]["mu"]
    assert (mu.max() > 1) == (bound_type is None)


@pytest.mark.parametrize("action_space", SPACES)
@pytest.mark.parametrize("share_encoder", [True, False])
def test_initialisation_of_every_layer(action_space: str, share_encoder: bool) -> None:
    model = VAC(6, SPACES[action_space], action_space, share_encoder, encoder_hidden_size_list=[32, 16])
    addresses = [parameter.data_ptr() for parameter in model.parameters()]
    model.init_parameters()
    assert [parameter.data_ptr() for parameter in model.parameters()] == addresses, "flat views must stay views"
    small = {"discrete": ["actor_head.1"], "continuous": ["actor_head.mlp.1"], "multi_discrete": ["actor_head.mlp.1"]}
    small["hybrid"] = ["actor_head.action_type.1", "actor_head.action_args.mlp.1"]
    seen = []
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            seen.append(name)
            gain = 0.01 if name in small[action_space] else 1.0 if name == "critic_head.1" else math.sqrt(2)
            rows = layer.weight if layer.weight.shape[0] <= layer.weight.shape[1] else layer.weight.t()
            torch.testing.assert_close(rows @ rows.t(), gain**2 * torch.eye(len(rows)), atol=1e-5, rtol=1e-4)
            assert not layer.bias.any()
    assert {*small[action_space], "critic_head.1"} <= set(seen)
    sigmas = [value for name, value in model.named_parameters() if "log_sigma" in name]
    assert len(sigmas) == (action_space in ("continuous", "hybrid"))
    assert all(torch.equal(value, torch.full((1, 2), -0.5)) for value in sigmas)


def test_initialisation_of_a_channels_last_image_network_keeps_its_format() -> None:
    model: Any = VAC(action_shape=3, **IMAGE).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's hints lack it
    model.init_parameters()
    for layer in model.encoder:
        assert layer.weight.is_contiguous(memory_format=torch.channels_last)
        rows = layer.weight.flatten(1)
        rows = rows if rows.shape[0] <= rows.shape[1] else rows.t()
        torch.testing.assert_close(rows @ rows.t(), 2 * torch.eye(len(rows)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("share", [True, False])
def test_a_recurrent_model_takes_sequences_of_dicts(share: bool) -> None:
    model = VAC({"a": 3, "b": {"c": 2}}, 3, "discrete", share, encoder_hidden_size_list=[8, 8], lstm_type="gru")
    obs = {"a": torch.randn(4, 2, 3), "b": {"c": torch.randn(4, 2, 2)}}
    output = model(obs)
    state: Any = None
    for t in range(4):
        step = model(tree_map(lambda leaf: leaf[t : t + 1], obs), prev_state=state)  # noqa: B023 (called at once)
        state = step["next_state"]
        torch.testing.assert_close(step["logit"][0], output["logit"][t])
        torch.testing.assert_close(step["value"][0], output["value"][t])
    torch.testing.assert_close(state, output["next_state"])
    if not share:  # each network has its memory, and either alone continues it
        assert set(state) == {"actor", "critic"}
        for name, key in (("actor", "logit"), ("critic", "value")):
            alone = model(obs, mode=f"compute_{name}", prev_state=state)
            torch.testing.assert_close(alone[key], model(obs, prev_state=state)[key])
            assert set(alone["next_state"]) == {name}
