"""The losses of QMIX and of what was made of it are those of their equations; unfit environments are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ding_lite.config import compile_config, set_shapes
from ding_lite.envs.spaces import EnvSpec
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.distributed import parity
from tests.policy.helpers import is_out


def problem(name: str, *words: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a policy whose target network differs from the online one, a batch of single steps, and their `obs`."""
    options = [f"policy.{word}" for word in ("unroll_len=1", "model.lstm_type=None", *words)]
    cfg = parity.compile_problem(name, "agents", options)
    policy: Any = parity.create_policy(cfg)
    batch = parity.replay_everything(cfg, policy.to_samples(parity.collect_block(cfg)), parity.NUM_ENVS)
    policy.learn(batch)
    return policy, batch, {key: part[0] for key, part in batch["obs"].items()}


@pytest.mark.parametrize("mixer", [True, False])
@pytest.mark.parametrize("double", [True, False])
def test_the_target_mixes_the_largest_values_of_allowed_actions(mixer: bool, double: bool) -> None:
    policy, batch, now = problem("qmix", f"model.mixer={mixer}", f"learn.double_q={double}")
    target, after = policy._target_model, batch["last_obs"]
    q_BMA, target_BMA, chooser_BMA = (
        network({key: part[None] for key, part in obs.items()})["logit"][0]
        for network, obs in ((policy.model, now), (target, after), (policy.model if double else target, after))
    )
    q_BM = q_BMA.gather(-1, batch["action"][0][..., None])[..., 0].masked_fill(is_out(now["action_mask"]), 0.0)
    q_B = policy.model(now["global_state"], mode="mix", q_XM=q_BM)
    best_BM = target_BMA.gather(-1, chooser_BMA.argmax(-1, keepdim=True))[..., 0]
    best_BM = best_BM.masked_fill(is_out(after["action_mask"]), 0.0)
    next_B = target(after["global_state"], mode="mix", q_XM=best_BM)["total_q"]
    y_B = batch["reward"][0] + policy.current_config.discount_factor * next_B * ~batch["done"][0]
    error_B = y_B.detach() - q_B["total_q"]
    loss, figures = policy.loss(batch)
    torch.testing.assert_close(loss, error_B.square().mean())
    torch.testing.assert_close(figures["priority"], error_B.detach().abs())


AGENTS = Box(-1, 1, (2, 4))
PLAIN = MultiDiscrete([3, 3])


@pytest.mark.parametrize(
    ("obs", "actions", "message"),
    [
        (Box(-1, 1, (4,)), Discrete(3), "Policy 'qmix' learns for several agents"),
        (Box(-1, 1, (4,)), PLAIN, r"expected Dict observations with agent_state \[M, ...\], and"),
        (Dict(agent_state=AGENTS, global_state=Box(-1, 1, (4,))), MultiDiscrete([3, 2]), "of M equal numbers"),
        (Dict(agent_state=AGENTS), MultiDiscrete([3] * 3), "of M equal numbers"),
        (Dict(agent_state=AGENTS), PLAIN, "mixer=True needs the key global_state in the observations"),
    ],
)
def test_an_environment_without_agents_or_without_their_state_is_refused(obs: Any, actions: Any, message: str) -> None:
    cfg = compile_config((dict(), dict(env=dict(env_id="CartPole-v1"), policy=dict(type="qmix"))))

    def build() -> Any:
        set_shapes(cfg, EnvSpec(obs, actions, 0))
        return POLICY_REGISTRY.find("qmix")(cfg.policy)

    with pytest.raises(ConfigError, match=message):
        build()


@pytest.mark.parametrize("key", ["mixer", "global_cooperation"])
def test_madqn_needs_a_global_state_where_it_uses_one(key: str) -> None:
    model = {"mixer": False, "global_cooperation": False}
    cfg = compile_config(
        (dict(policy=dict(model=model)), dict(env=dict(env_id="CartPole-v1"), policy=dict(type="madqn")))
    )
    set_shapes(cfg, EnvSpec(Dict(agent_state=AGENTS), PLAIN, 0))
    POLICY_REGISTRY.find("madqn")(cfg.policy)
    cfg.policy.model[key] = True
    with pytest.raises(ConfigError, match=rf"^policy\.model\.{key}=True needs the key global_state [^\n]*$"):
        POLICY_REGISTRY.find("madqn")(cfg.policy)


def test_di_engines_names_of_shapes_and_sizes_are_taken() -> None:
    model = dict(agent_num=2, obs_shape=4, global_obs_shape=6, action_shape=3, hidden_size_list=[8], mixer=True)
    policy = dict(model=model, collect=dict(unroll_len=7), learn=dict(target_update_theta=0.5, clip_value=10))
    cfg = compile_config((dict(policy=policy), dict(env=dict(env_id="CartPole-v1"), policy=dict(type="qmix"))))
    set_shapes(cfg, EnvSpec(Dict(agent_state=AGENTS, global_state=Box(-1, 1, (6,))), PLAIN, 0))
    assert cfg.policy.unroll_len == 7
    assert cfg.policy.learn.target_theta == 0.5
    assert cfg.policy.model.encoder_hidden_size_list == [8]


def both(network: Any, obs: dict[str, Any]) -> torch.Tensor:
    """Return the values of both networks of a pair, `[B, 2, M, A]`."""
    return network({key: part[None] for key, part in obs.items()})["both"][0]


def mixed(network: Any, obs: dict[str, Any], q_B2MA: torch.Tensor, action_BM: torch.Tensor) -> Any:
    """Return what the two mixers of a pair make of these actions, `[B]` each."""
    q_B2M = torch.stack([q_B2MA[:, i].gather(-1, action_BM[..., None])[..., 0] for i in (0, 1)], 1)
    q_B2M = q_B2M.masked_fill(is_out(obs["action_mask"])[:, None], 0.0)
    pair = q_B2M[..., None].expand(-1, -1, -1, 2)  # as if there were two actions with equal values
    only = {"q_X2MA": pair, "action_XM": torch.zeros_like(action_BM)}
    return network(obs["global_state"], mode="mix", **only)["total_q"].unbind(-1)


@pytest.mark.parametrize("optimistic", [True, False])
def test_weighted_qmix_counts_errors_at_good_actions_more(optimistic: bool) -> None:
    policy, batch, now = problem("wqmix", f"learn.wqmix_ow={optimistic}", "learn.alpha=0.25")
    online, target, after = policy.model, policy._target_model, batch["last_obs"]
    q_B2MA, action_BM = both(online, now), batch["action"][0]
    total_B, star_B = mixed(online, now, q_B2MA, action_BM)
    _, next_B = mixed(target, after, both(target, after), both(online, after)[:, 0].argmax(-1))
    y_B = (batch["reward"][0] + policy.current_config.discount_factor * next_B * ~batch["done"][0]).detach()
    best_BM = q_B2MA[:, 0].argmax(-1)
    _, best_star_B = mixed(online, now, q_B2MA, best_BM)
    good_B = total_B < y_B if optimistic else (best_BM == action_BM).all(-1) | (y_B > best_star_B)
    assert 0 < good_B.double().mean() < 1
    weight_B = torch.where(good_B, 1.0, 0.25)
    expected = (weight_B * (total_B - y_B).square() + (star_B - y_B).square()).mean()
    torch.testing.assert_close(policy.loss(batch)[0], expected)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("mixer", [True, False])
def test_madqns_networks_learn_the_target_of_the_one_that_sees_the_global_state(mixer: bool, double: bool) -> None:
    policy, batch, now = problem("madqn", f"model.mixer={mixer}", f"learn.double_q={double}", "nstep=1")
    online, target, after, action_BM = policy.model, policy._target_model, batch["last_obs"], batch["action"][0]
    blind = {**now, "global_state": torch.zeros_like(now["global_state"])}
    same_BM = (both(online, now) == both(online, blind)).flatten(2).all(-1)
    assert same_BM[:, 0].all()
    assert not same_BM[:, 1].any()
    target_B2MA = both(target, after)
    best_BM = (both(online, after)[:, 0] if double else target_B2MA[:, 1]).argmax(-1)
    _, next_B = mixed(target, after, target_B2MA, best_BM)
    y_B = (batch["reward"][0] + policy.current_config.discount_factor * next_B * ~batch["done"][0]).detach()
    total_B, cooperation_B = mixed(online, now, both(online, now), action_BM)
    loss, figures = policy.loss(batch)
    torch.testing.assert_close(loss, ((total_B - y_B).square() + (cooperation_B - y_B).square()).mean())
    torch.testing.assert_close(figures["priority"], (total_B - y_B).abs().detach())
