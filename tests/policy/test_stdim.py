"""ST-DIM: what it adds to the losses of DQN and PPO, and which observations it compares."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.reward_model import next_obs
from ding_lite.rl_utils import info_nce
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.policy.helpers import batches_of, compile_for

BOTH = ("dqn_stdim", "ppo_stdim")


def first_batch(name: str, *overrides: str) -> tuple[Any, dict[str, Any]]:
    """Return a policy and the first batch that it learns from."""
    cfg = compile_for(name, *overrides)
    block = parity.collect_block(cfg)
    policy = parity.create_policy(cfg)
    block = tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, block)
    return policy, next(batches_of(policy, cfg, block))


@pytest.mark.parametrize("name", BOTH)
def test_the_loss_is_that_of_the_algorithm_and_the_weighted_contrast(name: str) -> None:
    options = ("policy.aux_model.heads=[2,3]", "policy.aux_model.encode_shape=5", "policy.aux_model.temperature=0.5")
    policy, batch = first_batch(name, "policy.aux_loss_weight=0.3", *options)
    loss, figures = policy.loss(batch)
    plain, _ = first_batch(name, "policy.aux_loss_weight=0.0", *options)[0].loss(batch)
    features = [policy.model.encoder(batch[key]) for key in ("obs", "next_obs")]
    x_BHE, y_BKE = policy.model.aux_model(*features)
    assert (x_BHE.shape[1:], y_BKE.shape[1:]) == ((2, 5), (3, 5))
    contrast = info_nce(x_BHE, y_BKE, 0.5)
    torch.testing.assert_close(figures["aux_loss"], contrast.detach())
    torch.testing.assert_close(loss, plain + 0.3 * contrast)


@pytest.mark.parametrize("nstep", [1, 3])
def test_dqn_compares_a_last_observation_with_those_of_its_own_episode(nstep: int) -> None:
    """Not with the first one of the next episode, also if it ended in a terminal state."""
    cfg = compile_for("dqn_stdim", f"policy.nstep={nstep}")
    block = parity.collect_block(cfg)
    following, batch = next_obs(block).flatten(0, 1).tolist(), next(batches_of(parity.create_policy(cfg), cfg, block))
    ends, seen = batch["next_obs"][batch["done"]].tolist(), block["obs"].flatten(0, 1).tolist()
    terminal = block["done"].flatten().nonzero().squeeze(1)
    assert ends
    assert all(end in [following[i] for i in terminal] for end in ends)
    assert not any(end in seen for end in ends)


def test_ppo_compares_each_observation_with_the_one_that_followed_it() -> None:
    """Also at the end of an episode, and of a collect."""
    cfg = compile_for("ppo_stdim")
    cfg.policy.learn.batch_size, cfg.policy.learn.epoch_per_collect = 20, 2
    block = parity.collect_block(cfg)
    policy = parity.create_policy(cfg)
    pairs = torch.cat([block["obs"], next_obs(block)], -1).flatten(0, 1)
    batches = list(policy.batches(policy.to_samples(block)))
    assert len(batches) == 2 * 4  # 72 samples in parts of about 20
    for epoch in (batches[:4], batches[4:]):
        seen = torch.cat([torch.cat([batch["obs"], batch["next_obs"]], -1) for batch in epoch])
        assert sorted(seen.tolist()) == sorted(pairs.double().tolist())


@pytest.mark.parametrize("name", BOTH)
def test_learning_finds_out_what_follows_what(name: str) -> None:
    policy, batch = first_batch(name, "policy.aux_loss_weight=1.0", "policy.learn.learning_rate=0.01")
    contrasts = [policy.learn(batch)["aux_loss"].item() for _ in range(120)]
    assert contrasts[0] == pytest.approx(torch.tensor(float(len(batch["action"]))).log().item(), rel=0.1)
    assert contrasts[-1] < 0.7 * contrasts[0]
