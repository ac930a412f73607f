"""COMA's loss is that of its equation, and its critic sees what the others do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete

from ding_lite.config import compile_config, set_shapes
from ding_lite.envs.spaces import EnvSpec
from ding_lite.model import COMA
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.distributed import parity
from tests.policy.helpers import is_out


def problem(*words: str) -> tuple[Any, dict[str, Any]]:
    """Return a policy whose target differs from the model, and the batch of a block with all kinds of ends."""
    cfg = parity.compile_problem("coma", "agents", [f"policy.learn.{word}" for word in words])
    cfg.policy.learn.batch_size = 10**6
    policy, block = parity.create_policy(cfg), parity.collect_block(cfg)
    (batch,) = policy.batches(policy.to_samples(block))
    policy.learn(batch)
    return policy, batch


def test_the_critic_learns_returns_that_end_where_no_action_follows() -> None:
    policy, batch = problem("td_lambda=0.7", "policy_weight=0.0", "entropy_weight=0.0")
    rows, gamma, lambda_ = batch["episode_start"].shape, policy.current_config.discount_factor, 0.7
    action, reward, done, cut = (batch[key].unflatten(0, rows) for key in ("action", "reward", "done", "traj_flag"))
    q, target = (
        network(batch["obs"], mode="compute_critic", action=action)["q_value"].gather(-1, action[..., None])[..., 0]
        for network in (policy.model, policy._target_model)
    )
    out = is_out(batch["obs"]["action_mask"])  # it expects what the other one expects, and is not learned from
    target = torch.where(out, target.flip(-1), target)
    errors, learned = [], 0
    for b in range(rows[1]):
        after: Any = None  # the return of the next step, if it belongs to the same episode
        for t in reversed(range(rows[0])):
            if done[t, b]:
                after = reward[t, b].expand(2)
            elif cut[t, b] or t == rows[0] - 1:
                after = target[t, b]
                continue
            else:
                after = reward[t, b] + gamma * (lambda_ * after + (1.0 - lambda_) * target[t + 1, b])
            errors.append(((after - q[t, b]).square() * ~out[t, b]).sum())
            learned += 1
    assert done.any()
    assert (cut & ~done)[:-1].any()
    assert learned < rows[0] * rows[1] - rows[1] / 2
    torch.testing.assert_close(policy.loss(batch)[0], torch.stack(errors).sum() / (~out).sum())


def test_an_action_is_better_than_the_mean_of_what_the_agent_could_have_done_instead() -> None:
    policy, batch = problem("value_weight=0.0", "entropy_weight=0.25", "policy_weight=0.5")
    action = batch["action"].unflatten(0, batch["episode_start"].shape)
    q_TBMA = policy.model(batch["obs"], mode="compute_critic", action=action)["q_value"].detach()
    states = {key: batch[key] for key in ("prev_state", "episode_start")}
    logit = policy.model(batch["obs"], mode="compute_actor", **states)["logit"]
    pi = torch.distributions.Categorical(logits=logit)
    alternatives = torch.zeros_like(q_TBMA[..., 0])
    for choice in range(3):
        q_choice = torch.empty_like(alternatives)
        for m in range(2):
            instead = action.clone()
            instead[..., m] = choice  # the critic of agent m depends on the others' actions alone
            q_instead = policy.model(batch["obs"], mode="compute_critic", action=instead)["q_value"]
            q_choice[..., m] = q_instead[..., m, choice]
        alternatives += pi.probs[..., choice].detach() * q_choice.detach()
    adv = q_TBMA.gather(-1, action[..., None])[..., 0] - alternatives
    playing = ~is_out(batch["obs"]["action_mask"])
    expected = -(0.5 * pi.log_prob(action) * adv + 0.25 * pi.entropy())[playing].mean()
    loss, figures = policy.loss(batch)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(figures["entropy"], pi.entropy()[playing].mean().detach())
    critic = dict(policy.model.critic.named_parameters())
    gradients = torch.autograd.grad(loss, list(critic.values()), allow_unused=True)
    assert not any(gradient is not None and gradient.any() for gradient in gradients)


def test_the_critic_of_an_agent_sees_the_state_and_what_the_others_do() -> None:
    model = COMA(3, 4, 5, 6, [8])
    obs = {"agent_state": torch.randn(2, 7, 3, 4), "global_state": torch.randn(2, 7, 6)}
    action = torch.randint(5, (2, 7, 3))
    before = model(obs, mode="compute_critic", action=action)["q_value"]
    assert before.shape == (2, 7, 3, 5)
    other = action.clone()
    other[..., 1] = (other[..., 1] + 1) % 5
    changed = (model(obs, mode="compute_critic", action=other)["q_value"] != before).flatten(0, 1).flatten(2).any(-1)
    assert changed.all(0).tolist() == [True, False, True]
    state = obs | {"global_state": torch.randn(2, 7, 6)}
    assert (model(state, mode="compute_critic", action=action)["q_value"] != before).any(-1).all()


@pytest.mark.parametrize(
    "obs",
    [Dict(agent_state=Box(-1, 1, (2, 4))), Dict(agent_state=Box(0, 1, (2, 3, 8, 8)), global_state=Box(-1, 1, (4,)))],
)
def test_agents_without_a_global_state_or_with_images_are_refused(obs: Any) -> None:
    cfg = compile_config((dict(), dict(env=dict(env_id="CartPole-v1"), policy=dict(type="coma"))))
    set_shapes(cfg, EnvSpec(obs, MultiDiscrete([3, 3]), 0))
    with pytest.raises(ConfigError, match=r"^the critic of COMA needs vectors: [^\n]*$"):
        POLICY_REGISTRY.find("coma")(cfg.policy)
