"""The losses of REDQ, EDAC and TQC, against loops over samples, critics and quantiles."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.entry import serial_pipeline
from tests.policy.continuous.helpers import make_batch, make_qac, with_noise


def outputs(policy: Any, batch: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return what the target critics say of s' and a', what the critics say of s and a, log pi(a' | s'), and alpha."""
    logit = policy.model.actor(batch["next_obs"])
    normal = torch.distributions.Normal(logit["mu"], logit["sigma"])
    raw = logit["mu"] + logit["sigma"] * batch["noise"]["next"]
    action = raw.tanh()
    logp = (normal.log_prob(raw) - (1 - action.square()).log()).sum(-1)
    target = policy._target_critic(batch["next_obs"], action)
    return target, policy.model.critic(batch["obs"], batch["action"]), logp, policy._alpha().item()


def discounted(batch: dict[str, Any], b: int, value: Any) -> Any:
    return batch["reward"][b] + (0 if batch["done"][b] else batch["value_gamma"][b] * value)


@pytest.mark.parametrize("min_num", [1, 2, 4])
def test_a_target_of_redq_is_the_smallest_of_the_critics_that_were_drawn(min_num: int) -> None:
    policy = make_qac("redq", "model.ensemble_num=4", f"learn.min_num={min_num}")
    batch = with_noise(policy, make_batch(8))
    target, q, logp, alpha = outputs(policy, batch)
    drawn = batch["noise"]["critics"].tolist()
    assert len(set(drawn)) == min_num
    expected = 0.0
    for b in range(8):
        y = discounted(batch, b, min(target[c, b] for c in drawn) - alpha * logp[b])
        expected += sum((y - q[c, b]) ** 2 for c in range(4)).item() / 8
    assert policy._critic_loss(batch)[0].item() == pytest.approx(expected, rel=1e-4)


def test_redq_draws_critics_for_each_update_and_rarely_moves_its_actor() -> None:
    policy = make_qac("redq", "model.ensemble_num=6", "learn.actor_update_freq=3")
    drawn, actors = [], []
    for _ in range(7):
        drawn.append(with_noise(policy, make_batch(8))["noise"]["critics"].tolist())
        actors.append(policy.model.actor.head.mlp[0].weight.clone())
        policy.learn(make_batch(8))
    assert len({tuple(sorted(critics)) for critics in drawn}) > 2
    moved = [not torch.equal(*pair) for pair in itertools.pairwise(actors)]
    assert moved == [False, False, True, False, False, True]
    q = policy.model.critic(torch.zeros(5, 3), torch.zeros(5, 2))
    assert q.shape == (6, 5)


def test_redq_updates_its_critics_20_times_and_its_actor_once_for_each_env_step(tmp_path: Path) -> None:
    network = dict(ensemble_num=2, actor_head_hidden_size=8, critic_head_hidden_size=8)
    policy = dict(random_collect_size=8, model=network, learn=dict(batch_size=4))
    env = dict(env_id="Pendulum-v1", collector_env_num=4, evaluator_env_num=1, n_evaluator_episode=1)
    main = dict(exp_name=str(tmp_path / "run"), env=env, policy=policy)
    learned: Any = serial_pipeline((main, dict(policy=dict(type="redq"))), seed=0, max_env_step=20)
    assert learned.iteration == 20 * (20 - 8)
    assert learned._optimizers["actor"].steps == 20 - 8


@pytest.mark.parametrize("with_q_entropy", [False, True])
def test_critics_of_edac_learn_the_smallest_value_and_to_change_differently(with_q_entropy: bool) -> None:
    keys = ("model.ensemble_num=3", "learn.eta=0.5", f"learn.with_q_entropy={with_q_entropy}")
    policy = make_qac("edac", *keys)
    batch = with_noise(policy, make_batch(8))
    target, q, logp, alpha = outputs(policy, batch)
    expected, total = 0.0, 0.0
    for b in range(8):
        y = discounted(batch, b, min(target[:, b]) - with_q_entropy * alpha * logp[b])
        expected += sum((y - q[c, b]) ** 2 for c in range(3)).item() / 8
        action = batch["action"][b : b + 1].clone().requires_grad_()
        values = policy.model.critic(batch["obs"][b : b + 1], action)[:, 0]
        slopes = [torch.autograd.grad(value, action, retain_graph=True)[0][0] for value in values]
        pairs = itertools.permutations(slopes, 2)
        total += sum(torch.cosine_similarity(*pair, dim=0).item() for pair in pairs)
    loss, figures = policy._critic_loss(batch)
    assert figures["similarity"].mean().item() == pytest.approx(total / 8 / 6, abs=1e-5)
    assert loss.item() == pytest.approx(expected + 0.5 * total / 8 / 2, rel=1e-4)


def test_the_similarity_of_edacs_critics_falls_the_faster_the_larger_eta_is() -> None:
    similarities = []
    for eta in (0.0, 1.0, 100.0):
        torch.manual_seed(0)
        policy = make_qac("edac", "model.ensemble_num=3", f"learn.eta={eta}", "learn.learning_rate_q=0.003")
        for seed in range(40):
            output = policy.learn(make_batch(32, seed))
        similarities.append(output["similarity"].mean().item())
    assert similarities[0] > similarities[1] + 0.1
    assert similarities[1] > similarities[2] > -0.5  # three vectors of length 1 cannot differ more


@pytest.mark.parametrize("dropped", [0, 2, 4])
def test_a_target_of_tqc_has_the_smallest_quantiles_of_all_critics(dropped: int) -> None:
    sizes = ("model.ensemble_num=3", "model.num_quantiles=5", f"learn.top_quantiles_to_drop_per_net={dropped}")
    policy = make_qac("tqc", *sizes)
    batch = with_noise(policy, make_batch(8)) | {"weight": torch.linspace(0.5, 2.0, 8)}
    target, theta, logp, alpha = outputs(policy, batch)
    assert target.shape == theta.shape == (3, 8, 5)
    expected = 0.0
    for b in range(8):
        kept = sorted(target[:, b].flatten().tolist())[: 3 * (5 - dropped)]
        y = [discounted(batch, b, z - alpha * logp[b]).item() for z in kept]
        for c in range(3):
            for k in range(5):
                for y_j in y:
                    u = y_j - theta[c, b, k].item()
                    huber = u * u / 2 if abs(u) <= 1 else abs(u) - 0.5
                    rho = abs((k + 0.5) / 5 - (u < 0)) * huber
                    expected += batch["weight"][b].item() * rho / (5 * len(y)) / 8
    assert policy._critic_loss(batch)[0].item() == pytest.approx(expected, rel=1e-4)
    q = policy._run(policy.model.critic, batch["obs"], action=batch["action"]).mean((0, 2))
    torch.testing.assert_close(policy._critic_loss(batch)[1]["q_value"], q.detach())
