"""The recurrent state-space model: its distributions, its samples and their gradient, where it is reset, one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.world_model.model.rssm import RSSM, ImageDecoder, choose, feature_of, mix_uniform, sample_classes

T, B, E, A, H, S, C = 6, 3, 5, 2, 8, 3, 4


def build() -> RSSM:
    torch.manual_seed(0)
    return RSSM(E, A, deter=H, hidden=7, stoch=S, classes=C, unimix=0.01).double()


def sequences(seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    draw = dict(dtype=torch.float64, generator=generator)
    return {
        "embed_TBE": torch.randn(T, B, E, **draw),  # type: ignore[call-overload]
        "prev_action_TBA": torch.randn(T, B, A, **draw),  # type: ignore[call-overload]
        "start_TB": torch.zeros(T, B, dtype=torch.bool),
        "noise_TBS": torch.rand(T, B, S, **draw),  # type: ignore[call-overload]
    }


def features(rssm: RSSM, **changes: Any) -> torch.Tensor:
    """Return the features of all states, `[T, B, F]`."""
    rows = sequences() | changes
    start = rssm.zeros(rows["embed_TBE"], rows["embed_TBE"].shape[1])
    return feature_of(rssm.observe(**rows, state=start)[0]).detach()


def test_one_percent_of_a_uniform_distribution_is_in_prior_and_posterior() -> None:
    """Of C = 4 classes, the least probability is 0.01 / 4; the largest is 0.99 + 0.01 / 4."""
    mixed = mix_uniform(torch.tensor([60.0, 0.0, 0.0, 0.0]), 0.01).exp()
    assert mixed.tolist() == pytest.approx([0.9925, 0.0025, 0.0025, 0.0025])
    rssm = build()
    for net in (rssm.prior_net, rssm.posterior_net):
        for parameter in net[-1].parameters():
            parameter.data.mul_(1e4)
    deter, embed = torch.randn(50, H).double(), torch.randn(50, E).double()
    for logp in (rssm.prior(deter), rssm.posterior(deter, embed)):
        assert logp.shape == (50, S, C)
        assert logp.exp().amin().item() == pytest.approx(0.0025)
        assert torch.allclose(logp.exp().sum(-1), torch.ones(()).double())


def test_classes_are_chosen_by_their_cumulative_probabilities() -> None:
    logp = torch.tensor([0.2, 0.0, 0.3, 0.5]).log()
    noise = [0.0, 0.19, 0.21, 0.49, 0.51, 0.99999]
    assert choose(logp.expand(6, 4), torch.tensor(noise)).tolist() == [0, 0, 2, 2, 3, 3]
    assert choose(logp, None) == 3


def test_the_gradient_of_a_sample_is_that_of_its_probabilities() -> None:
    logit = torch.randn(S, C, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(S * C, dtype=torch.float64)
    logp = logit.log_softmax(-1)
    sampled = sample_classes(logp, torch.rand(S, dtype=torch.float64))
    assert sampled.unflatten(-1, (S, C)).sum(-1).tolist() == [1.0] * S
    assert set(sampled.tolist()) == {0.0, 1.0}
    (found,) = torch.autograd.grad((weight * sampled).sum(), logit, retain_graph=True)
    (expected,) = torch.autograd.grad((weight * logp.exp().flatten()).sum(), logit)
    torch.testing.assert_close(found, expected)


def test_one_step_of_the_recurrent_part_in_numpy() -> None:
    rssm = build()
    state = {"deter": torch.randn(1, H).double(), "stoch": torch.randn(1, S * C).double()}
    action = torch.randn(1, A).double()

    def normal(x: np.ndarray) -> np.ndarray:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5)

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-x))

    linear = rssm.inputs[0][0]  # type: ignore[index]
    weight, bias, cell = (leaf.detach().numpy() for leaf in (linear.weight, linear.bias, rssm.cell.weight))
    h = state["deter"][0].numpy()
    x = normal(weight @ np.concatenate([state["stoch"][0].numpy(), action[0].numpy()]) + bias)
    reset, candidate, update = np.split(normal(cell @ np.concatenate([x * sigmoid(x), h])), 3)
    update = sigmoid(update - 1.0)
    expected = update * np.tanh(sigmoid(reset) * candidate) + (1.0 - update) * h
    np.testing.assert_allclose(rssm.advance(state, action)[0].detach().numpy(), expected, rtol=1e-10)


def test_an_episode_begins_from_zeros_whatever_was_before_also_its_action() -> None:
    rssm, rows = build(), sequences()
    start_TB = rows["start_TB"].clone()
    start_TB[2, 1] = True
    states = features(rssm, start_TB=start_TB)
    later = {key: value[2:] for key, value in (rows | {"start_TB": start_TB}).items()}
    later["prev_action_TBA"] = later["prev_action_TBA"].clone()
    later["prev_action_TBA"][0] = 0.0  # as nothing was done before it
    anew = features(rssm, **later)
    torch.testing.assert_close(states[2:, 1], anew[:, 1])
    assert not torch.allclose(states[2:, 0], anew[:, 0])


def test_a_state_depends_on_its_observation_and_the_action_before_and_nothing_later() -> None:
    rssm, rows = build(), sequences()
    begin = rssm.zeros(rows["embed_TBE"], B)
    state, logp = rssm.observe(**rows, state=begin)
    for key in ("embed_TBE", "prev_action_TBA"):
        changed = rows[key].clone()
        changed[3] += 1.0
        other, other_logp = rssm.observe(**rows | {key: changed}, state=begin)
        assert torch.equal(feature_of(state)[:3], feature_of(other)[:3])
        assert not torch.isclose(logp[3], other_logp[3]).all(-1).any()
        assert torch.equal(state["deter"][3], other["deter"][3]) == (key == "embed_TBE")  # h_t has not seen x_t


@pytest.mark.parametrize("shape", [[3, 64, 64], [1, 84, 84], [3, 7, 7], [2, 5, 6], [3, 30, 40]])
def test_a_decoded_image_has_the_shape_of_the_image_and_depends_on_all_features(shape: list[int]) -> None:
    decoder = ImageDecoder(9, shape, depth=4)
    feature = torch.randn(2, 9, requires_grad=True)
    image = decoder(feature)
    assert list(image.shape) == [2, *shape]
    (gradient,) = torch.autograd.grad(image.square().sum(), feature)
    assert (gradient != 0).all()
