"""BDQ's loss by hand on a table with branches of unequal sizes, its actions, and a lock that it learns to open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete
from torch import Tensor, nn

from ding_lite.config import compile_config, set_shapes
from ding_lite.entry import serial_pipeline
from ding_lite.envs import check_env
from ding_lite.policy import BDQPolicy
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from tests.policy.helpers import OBS, last_gradient, make_policy, same, target_of

LACKS = float("-inf")
# Branch 0 has two options, branch 1 has three.
ONLINE = [[[1.0, 2.0, LACKS], [3.0, 4.0, 5.0]], [[9.0, 7.0, LACKS], [0.0, 1.0, 0.0]]]
TARGET = [[[0.0, 0.0, LACKS], [0.0, 0.0, 0.0]], [[2.0, 3.0, LACKS], [5.0, 4.0, 8.0]]]


class BranchTable(nn.Module):
    """Values written down, `[S, D, A]`, for one-hot observations."""

    lacks: Tensor

    def __init__(self, values: list[list[list[float]]]) -> None:
        super().__init__()
        known = torch.tensor(values)
        self.q = nn.Parameter(known.nan_to_num(neginf=0.0))
        self.register_buffer("lacks", torch.isneginf(known))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        state_B = obs.argmax(-1)
        return {"logit": self.q[state_B].masked_fill(self.lacks[state_B], LACKS)}


def table_policy(*overrides: str) -> BDQPolicy:
    policy = make_policy("discount_factor=0.9", *overrides, model=BranchTable(ONLINE), kind="bdq")
    target_of(policy)["q"].copy_(torch.tensor(TARGET).nan_to_num(neginf=0.0))
    assert isinstance(policy, BDQPolicy)
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """One step from state 0 by the options 1 and 0 to state 1, and one from state 1 by 0 and 2 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([[1, 0], [0, 2]]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.9, 0.9]),
        **more,
    }


# In state 1 the online network chooses 0 and 1, worth 2 and 4 to the target: mean 3, own targets 2.8 and 4.6. The
# target's own choice is worth 3 and 8: mean 5.5. Q is 2 and 3. The terminal step: -1 against 9 and 0.
CASES = {
    (): [1.0 + 0.9 * 3 - 2, 1.0 + 0.9 * 3 - 3],
    ("learn.mean_target=False",): [2.8 - 2, 4.6 - 3],
    ("double=False",): [1.0 + 0.9 * 5.5 - 2, 1.0 + 0.9 * 5.5 - 3],
}
LAST = [-10.0, -1.0]


@pytest.mark.parametrize("overrides", CASES)
def test_loss_by_hand(overrides: tuple[str, ...]) -> None:
    loss, output = table_policy(*overrides).loss(table_batch())
    squares = [sum(error**2 for error in errors) / 2 for errors in (CASES[overrides], LAST)]
    assert loss.item() == pytest.approx(sum(squares) / 2, rel=1e-5)
    priorities = [sum(abs(error) for error in errors) / 2 for errors in (CASES[overrides], LAST)]
    assert output["priority"].tolist() == pytest.approx(priorities, rel=1e-5)
    assert output["q_value"].mean().item() == pytest.approx((2 + 3 + 9 + 0) / 4)


def test_a_step_moves_the_chosen_options_alone_and_the_target_follows() -> None:
    policy = table_policy("learn.target_update_freq=1")
    output = policy.learn(table_batch())
    expected = torch.zeros(2, 2, 3)
    expected[0, 0, 1], expected[0, 1, 0] = (-error / 2 for error in CASES[()])  # of a mean of two samples, two branches
    expected[1, 0, 0], expected[1, 1, 2] = (-error / 2 for error in LAST)
    torch.testing.assert_close(last_gradient(policy), expected.flatten())
    assert same([target_of(policy)["q"]], list(policy.model.parameters()))
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)


@pytest.mark.parametrize("mode", ["collect", "eval"])
def test_every_branch_explores_its_own_options_by_itself(mode: str) -> None:
    torch.manual_seed(0)
    policy, obs = table_policy("eval.eps=0.6"), torch.eye(2)[:1].expand(20_000, 2)
    if mode == "collect":
        action_ND = policy.act(obs, eps=0.6)["action"]
    else:
        policy.reset(explore=False)
        action_ND = policy.act(obs, explore=False)["action"]
    assert action_ND.shape == (20_000, 2)
    # Greedy are 1 and 2. Branch 0: 0.4 + 0.6 / 2 greedy; branch 1: 0.4 + 0.6 / 3. Standard deviation 0.0035.
    for branch, shares in enumerate([[0.3, 0.7, 0.0], [0.2, 0.2, 0.6]]):
        found = torch.bincount(action_ND[:, branch], minlength=3) / 20_000
        torch.testing.assert_close(found, torch.tensor(shares), atol=0.015, rtol=0)
    greedy_ND = action_ND == torch.tensor([1, 2])
    both = greedy_ND.all(-1).float().mean().item()
    assert both == pytest.approx(0.7 * 0.6, abs=0.015)  # independent of each other


def test_a_single_choice_is_an_action_without_dimension() -> None:
    network = dict(obs_shape=OBS, action_shape=3, encoder_hidden_size_list=[16, 8])
    main, create = dict(policy=dict(model=network)), dict(env=dict(env_id="CartPole-v1"), policy=dict(type="bdq"))
    policy = BDQPolicy(compile_config((main, create)).policy)
    action_N = policy.act(torch.randn(6, OBS).numpy(), eps=0.5)["action"]
    assert action_N.shape == (6,)
    batch = {
        "obs": torch.randn(6, OBS), "next_obs": torch.randn(6, OBS), "action": action_N.clone(),
        "reward": torch.randn(6), "done": torch.zeros(6).bool(), "value_gamma": torch.full((6,), 0.99),
    }  # fmt: skip
    assert torch.isfinite(policy.learn(batch)["total_loss"])


class Locks(gymnasium.Env):
    """Each wheel of a lock shows which number it wants; the reward is the share of wheels that are turned to it."""

    config: ClassVar = dict(wheels=[2, 3, 4])

    def __init__(self, cfg: Any) -> None:
        self._sizes = np.array(cfg.wheels)
        self.observation_space = Box(0.0, 1.0, (int(self._sizes.sum()),), np.float32)
        self.action_space = MultiDiscrete(self._sizes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float((action == self._wanted).mean())
        self._step += 1
        return self._observe(), reward, self._step == 5, False, {}

    def _observe(self) -> np.ndarray:
        self._wanted = self.np_random.integers(self._sizes)
        wheels = zip(self._sizes, self._wanted, strict=True)
        return np.concatenate([np.eye(size, dtype=np.float32)[wanted] for size, wanted in wheels])


@pytest.fixture(autouse=True)
def locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "locks", Locks)


def lock_pair(**model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    main = dict(
        exp_name="run",
        env=dict(n_evaluator_episode=24, stop_value=4.7),  # random play: 5 (1/2 + 1/3 + 1/4) / 3 = 1.8
        policy=dict(
            num_threads=1,
            discount_factor=0.5,
            model=dict(encoder_hidden_size_list=[32], layer_num=1, **model),
            learn=dict(update_per_collect=4, learning_rate=0.003),
            eval=dict(evaluator=dict(eval_freq=100)),
            other=dict(eps=dict(end=0.1, decay=500)),
        ),
    )
    return main, dict(env=dict(type="locks"), policy=dict(type="bdq"))


def test_it_learns_to_open_a_lock_with_wheels_of_unequal_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = serial_pipeline(lock_pair(), seed=0, max_env_step=10_000)
    assert policy.model.sizes == [2, 3, 4]
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    returns = [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]
    assert json.loads(Path("run/result.json").read_text())["stop_reason"] == "stop_value", returns
    assert returns[0] < 3.5  # it could not do it from the start


def test_branches_that_do_not_fit_the_environment_are_refused() -> None:
    cfg = compile_config(lock_pair(num_branches=3, action_bins_per_branch=3))
    set_shapes(cfg, check_env(cfg.env))
    with pytest.raises(ConfigError, match=r"do not describe the environment's actions, .* \[2, 3, 4\]: leave both out"):
        BDQPolicy(cfg.policy)
