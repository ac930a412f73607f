"""What every policy is given by its base: merged defaults, modes, state, and being extended by one method."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy, PGPolicy, Policy, PPOOffPolicy, PPOPolicy
from ding_lite.torch_utils.networks import modules_of
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.distributed import parity
from tests.policy.helpers import OBS, make_batch, make_cfg, make_policy, parameter_hash, same, target_of


class Halfway(DQNPolicy):
    config = dict(learn=dict(batch_size=7), extra=dict(deep=1))


class Further(Halfway):
    config = dict(extra=dict(other=2))


def test_defaults_of_a_class_and_its_bases_are_merged_and_not_shared() -> None:
    cfg = Further.default_config()
    assert (cfg.learn.batch_size, cfg.learn.target_theta, cfg.extra) == (7, None, {"deep": 1, "other": 2})
    assert (cfg.nstep, "nstep" in Policy.default_config()) == (3, False)  # DQN's own
    clips = [policy.default_config().learn.grad_clip_value for policy in (PGPolicy, Policy)]
    assert clips == [5.0, 0.5]  # the policy gradient's over the base's
    cfg.learn.batch_size = 1
    cfg.extra.deep = 5
    assert Further.default_config().learn.batch_size == 7
    assert Halfway.config == dict(learn=dict(batch_size=7), extra=dict(deep=1))
    assert "extra" not in DQNPolicy.default_config()


def test_what_a_policy_goes_without_is_taken_out_of_its_own_defaults_alone() -> None:
    assert PGPolicy.default_config().collect == {"n_episode": 8}
    assert Policy.default_config().collect == {"n_sample": None}
    assert {"target_kl", "epoch_per_collect"} <= set(PPOPolicy.default_config().learn)
    assert not {"target_kl", "epoch_per_collect"} & set(PPOOffPolicy.default_config().learn)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("precision=fp8", "policy.precision must be 'float32' or 'bf16', got 'fp8'"),
        ("learn.grad_clip_type=norm", "must be 'clip_norm', 'clip_value' or None, got 'norm'"),
        ("priority_IS_weight=True", "set policy.priority=True too"),
        ("learn.on_nonfinite=ignore", "policy.learn.on_nonfinite must be 'stop' or 'skip', got 'ignore'"),
        ("learn.learner.hook.check_ranks_after_iter=-1", "hook.check_ranks_after_iter: expected at least 0, got -1"),
        ("learn.learner.hook.keep_ckpt=-1", "hook.keep_ckpt: expected at least 0, got -1"),
    ],
)
def test_contradictions_are_config_errors(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        make_policy(override)


def test_fields_that_are_not_enabled_are_not_built() -> None:
    player = DQNPolicy(make_cfg(), enable_field=("eval",))
    assert modules_of(player) == [player.model, player.normalizer]  # no target network
    assert player.act(np.zeros((3, OBS), np.float32), explore=False)["action"].shape == (3,)


def trained(seed: int = 0) -> DQNPolicy:
    torch.manual_seed(seed)
    policy = make_policy("learn.target_update_freq=2")
    for step in range(3):
        policy.learn(make_batch(8, seed + step))
    return policy


def everything(policy: DQNPolicy) -> list[Tensor]:
    state = policy.state_dict()
    moments = state["optimizer"]["state"][0]
    networks = [*state["model"].values(), *state["target_model"].values()]
    return [value.clone() for value in (*networks, *(moments[key] for key in ("step", "exp_avg", "exp_avg_sq")))]


def test_a_restored_policy_goes_on_as_the_saved_one() -> None:
    policy, other = trained(0), trained(10)
    assert not same(everything(policy), everything(other))
    other.load_state_dict(copy.deepcopy(policy.state_dict()))  # as from a file
    for step in range(3):  # with the target's copy in it, after the fourth iteration
        assert same(everything(policy), everything(other))
        for one in (policy, other):
            one.learn(make_batch(8, 20 + step))


def test_the_learning_rate_is_the_configs_and_not_the_checkpoints() -> None:
    own = ("learn.learning_rate=0.25", "learn.weight_decay=0.5", "learn.adam_eps=0.001")
    policy, other = trained(), make_policy(*own)
    other.load_state_dict(policy.state_dict())
    (group,) = other.state_dict()["optimizer"]["param_groups"]
    assert (group["lr"], group["weight_decay"], group["eps"]) == (0.25, 0.5, 0.001)


def test_an_optimizers_state_of_another_size_is_refused() -> None:
    policy, state = trained(0), trained(10).state_dict()
    moments = state["optimizer"]["state"][0]
    moments["exp_avg"] = moments["exp_avg"][:-1]
    with pytest.raises(ValueError, match=r"exp_avg: expected shape \(\d+,\), got .*resume_training=False"):
        policy.load_state_dict(state)


def test_the_model_alone_becomes_online_and_target_network_of_a_new_training() -> None:
    policy, other = trained(0), trained(10)
    other.load_state_dict({"model": policy.state_dict()["model"]})
    for state in (other.model.state_dict(), target_of(other)):
        assert same(list(state.values()), list(policy.model.parameters()))


def test_loading_keeps_the_flat_tensor() -> None:
    policy = trained(0)
    policy.load_state_dict(trained(10).state_dict())
    before = [p.clone() for p in policy.model.parameters()]
    policy.learn(make_batch(8))  # a detached parameter would be refused, or not move
    assert not any(torch.equal(a, b) for a, b in zip(before, policy.model.parameters(), strict=True))


def test_a_given_model_is_the_one_that_is_trained() -> None:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(OBS, 3))

        def forward(self, obs: Tensor) -> dict[str, Tensor]:
            return {"logit": obs @ self.weight}

    model = Linear()
    before = model.weight.detach().clone()
    policy = make_policy(model=model)
    policy.learn(make_batch(8))
    assert policy.model is model
    assert not torch.equal(model.weight, before)


@pytest.mark.parametrize("name", sorted(name for name, cls in POLICY_REGISTRY.items() if "ding_lite" in cls.__module__))
def test_a_given_model_keeps_its_parameters(name: str) -> None:
    policy_cls: Any = POLICY_REGISTRY[name]
    kind = next(kind for kind, space in parity.SPACES.items() if isinstance(space, policy_cls.action_spaces))
    cfg = parity.compile_problem(name, kind, []).policy
    model = policy_cls(cfg).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    before = parameter_hash(model)
    drawn = torch.get_rng_state()
    assert parameter_hash(policy_cls(cfg, copy.deepcopy(model)).model) == before
    assert torch.equal(torch.get_rng_state(), drawn)


class Keeping(DQNPolicy):
    def _process_transition(
        self, obs: Any, policy_output: dict[str, Tensor], timestep: SimpleNamespace
    ) -> dict[str, Any]:
        row = super()._process_transition(obs, policy_output, timestep)
        return row | {"logit": policy_output["logit"]}


def test_a_transition_may_keep_more() -> None:
    timestep = SimpleNamespace(reward=1, done=2, traj_flag=3, info={})
    output = {"action": 4, "logit": 5}
    policy = make_policy()
    row = policy.to_row(0, output, timestep)
    assert row == {"obs": 0, "action": 4, "reward": 1, "done": 2, "traj_flag": 3}
    assert Keeping(make_cfg()).to_row(0, output, timestep) == row | {"logit": 5}


def test_with_ignore_done_no_step_is_terminal_and_trajectories_are_cut_all_the_same() -> None:
    ended = np.array([True, False])
    timestep = SimpleNamespace(reward=1, done=ended, traj_flag=ended, info={})
    row = make_policy("learn.ignore_done=True").to_row(0, {"action": 4}, timestep)
    assert row["done"].tolist() == [False, False]
    assert row["traj_flag"].tolist() == ended.tolist() == [True, False]


def test_evaluating_and_collecting_record_no_gradient() -> None:
    policy, obs = make_policy(), np.zeros((3, OBS), np.float32)
    for output in (policy.act(obs, eps=0.3), policy.act(obs, explore=False)):
        assert not any(value.requires_grad for value in output.values())


def test_observations_of_float64_are_learned_from_in_the_models_type() -> None:
    batch = make_batch(8)
    wide = batch | {key: batch[key].double() for key in ("obs", "next_obs")}
    policy = make_policy()
    assert torch.equal(policy.loss(batch)[0], policy.loss(wide)[0])
