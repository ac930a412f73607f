"""BCQ's losses and its choice of an action, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from tests.policy.continuous.helpers import line_batch, line_critic, losses
from tests.policy.helpers import Formula, build_policy


class Line(nn.Module):
    """Networks of one dimension: mu = a + s, log sigma = -0.5; D(s, z) = z_1 / 2 + s; xi(s, a) = 2 a; Q_c = c a + s."""

    latent_size, phi = 2, 0.25

    def __init__(self) -> None:
        super().__init__()
        self.actor = Formula(lambda net, obs, vector: net.slope * vector, slope=2.0)
        self.critic, self.vae = line_critic(), nn.Module()
        self.vae.encoder = Formula(
            lambda net, obs, vector: torch.cat([net.slope * vector + obs] * 2 + [0 * obs - 0.5] * 2, -1), slope=1.0
        )
        self.vae.decoder = Formula(lambda net, obs, vector: net.slope * vector[..., :1] + obs, slope=0.5)


def hand(*overrides: str, done: bool = False) -> Any:
    """Return a policy and a batch whose noise is 1 for the autoencoder, -1 for the actor, -0.4 and 0.2 for s'."""
    policy = build_policy("bcq", {}, *overrides, model=Line())
    next_21Z = torch.tensor([-0.4, 0.2]).view(2, 1, 1).expand(2, 1, 2)
    noise = {"vae": torch.ones(1, 2), "actor": -torch.ones(1, 2), "next": next_21Z}
    return policy, line_batch(done) | {"noise": noise}


def changed(z: float, obs: float) -> float:
    """Return the action that the actor makes of a latent vector, all of whose numbers are z."""
    d = math.tanh(0.5 * z + obs)
    return min(d + 0.25 * math.tanh(2 * d), 1.0)


def test_the_autoencoder_reconstructs_actions_from_nearly_normal_vectors() -> None:
    policy, batch = hand()
    loss, figures = losses(policy, batch)["vae"]
    # a = 0.1 and s = 0.5: mu = 0.6, z = 0.6 + exp(-0.5)
    reconstruction = (math.tanh(0.5 * (0.6 + math.exp(-0.5)) + 0.5) - 0.1) ** 2
    divergence = (0.6**2 + math.exp(-1.0) - 1) / 2 + 0.5
    assert figures["recons_loss"].item() == pytest.approx(reconstruction, rel=1e-5)
    assert figures["kld_loss"].item() == pytest.approx(divergence, rel=1e-5)
    assert loss.item() == pytest.approx(reconstruction + divergence / 2, rel=1e-5)


@pytest.mark.parametrize("done", [False, True])
def test_a_target_mixes_both_values_of_the_best_action_that_the_decoder_offers(done: bool) -> None:
    policy, batch = hand("learn.lmbda=0.75", done=done)
    loss, figures = losses(policy, batch)["critic"]
    # s' = 0.4, values a + 0.4 and 2 a + 0.4; of z = -0.4 and 0.2 the second gives the larger action
    action = changed(0.2, 0.4)
    value = 0.0 if done else 0.75 * (action + 0.4) + 0.25 * (2 * action + 0.4)
    target = 1 + 0.5 * value
    assert loss.item() == pytest.approx((target - 0.6) ** 2 + (target - 0.7) ** 2, rel=1e-5)
    assert figures["q_value"].flatten().tolist() == pytest.approx([0.6, 0.7])


def test_the_actor_climbs_the_first_critic_within_phi_of_the_decoders_actions() -> None:
    policy, batch = hand()
    loss, _ = losses(policy, batch)["actor"]
    assert loss.item() == pytest.approx(-changed(-0.5, 0.5) - 0.5, rel=1e-5)  # z = -1 is clipped
    loss.backward()
    d = math.tanh(0.25)
    slope = 0.25 * d * (1 - math.tanh(2 * d) ** 2)
    assert policy.model.actor.slope.grad.item() == pytest.approx(-slope, rel=1e-5)
    assert policy.model.vae.decoder.slope.grad.item() == 0.0


def test_it_plays_the_best_candidate_and_repeats_itself_only_in_evaluations() -> None:
    policy, _ = hand()
    obs = torch.tensor([[0.1], [-0.3]]).numpy()
    best, again = (policy.act(obs, explore=False)["action"] for _ in range(2))
    assert torch.equal(best, again)
    # of 100 latent vectors some reach the bound of 0.5, and the values rise with the action
    assert best[:, 0].tolist() == pytest.approx([changed(0.5, 0.1), changed(0.5, -0.3)], rel=1e-5)
    torch.manual_seed(0)
    policy = build_policy("bcq", dict(obs_shape=3, action_shape=2, vae_hidden_dims=[16]))
    obs = torch.randn(20, 3).numpy()
    played = [policy.act(obs)["action"] for _ in range(2)]
    assert played[0].shape == (20, 2)
    assert (played[0] != played[1]).float().mean() > 0.5
