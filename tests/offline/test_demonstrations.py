"""Batches of own transitions and of a data set: shares, priorities, first updates, resuming."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.entry import serial_pipeline
from ding_lite.offline.demonstrations import DemonstrationReplayBuffer
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import Scheduled
from tests.distributed.launcher import run_forked
from tests.offline.test_sqil import BUFFER, GAMMA, ROWS, pair, write_expert
from tests.policy.helpers import same_tree
from tests.run.helpers import metrics, result


def create(path: Path, steps: int = 8, **options: Any) -> DemonstrationReplayBuffer:
    """Return a buffer with steps of 2 environments, whose observations are 0 and whose rewards are 3."""
    data_path = write_expert(path / "expert.npz")
    buffer = DemonstrationReplayBuffer(64, 2, data_path, **{"gamma": GAMMA, "seed": 1, **options})
    if steps:
        buffer.push(block(steps))
    return buffer


def block(steps: int) -> Any:
    flags = torch.zeros(steps, 2, dtype=torch.bool)
    rows: dict[str, Any] = {"obs": torch.zeros(steps, 2, 4), "last_obs": torch.zeros(2, 4), "done": flags}
    rows |= {"action": torch.zeros(steps, 2, dtype=torch.int64), "reward": torch.full((steps, 2), 3.0)}
    return rows | {"traj_flag": flags, "episode_step": torch.arange(steps)[:, None].expand(steps, 2)}


@pytest.mark.parametrize(("ratio", "number"), [(0.5, 5), (0.25, 2), (0.01, 1), (0.99, 9)])
def test_a_batch_has_a_share_of_the_data_with_its_own_rewards(tmp_path: Path, ratio: float, number: int) -> None:
    for batch in create(tmp_path, ratio=ratio).batches(10, 20):
        assert batch["is_expert"].tolist() == [False] * (10 - number) + [True] * number
        assert batch["reward"].tolist() == [3.0] * (10 - number) + [7.0] * number
        assert (batch["obs"][:, 0] >= 100).tolist() == batch["is_expert"].tolist()
        assert len(batch["index"]) == 10 - number


def test_without_a_ratio_all_transitions_are_drawn_equally_often(tmp_path: Path) -> None:
    buffer = create(tmp_path, ratio=None)  # 14 own transitions and 10 of the data
    numbers = [int(batch["is_expert"].sum()) for _ in range(600) for batch in buffer.batches(6, 1)]
    assert set(numbers) == {2, 3}  # 6 * 10 / 24 = 2.5
    assert np.mean(numbers) == pytest.approx(6 * ROWS / (ROWS + 14), abs=0.08)  # four standard deviations


def test_before_the_first_step_all_is_data(tmp_path: Path) -> None:
    for options in ({}, {"alpha": 0.6}):
        buffer = create(tmp_path, steps=0, **options)
        assert buffer.count() == ROWS
        batches = list(buffer.batches(6, 3))
        assert [batch["is_expert"].all().item() for batch in batches] == [True] * 3
        assert ("weight" in batches[0]) == bool(options)
        buffer.update(batches[0]["index"], torch.ones(6))  # there is no own sample
        buffer.push(block(8))
        assert next(buffer.batches(6, 1)).keys() - batches[0].keys() <= {"traj_flag"}


def test_priorities_concern_own_samples(tmp_path: Path) -> None:
    buffer = create(tmp_path, alpha=1.0, ratio=0.5)
    batch = next(buffer.batches(12, 1))
    assert batch["weight"][6:].tolist() == [1.0] * 6
    chosen = batch["index"][0]
    for place in range(16):  # all others get a priority near 0
        buffer.update(torch.tensor([place]), torch.tensor([1.0 if place == chosen else 0.0, 5.0]))
    drawn = torch.cat([each["index"] for each in buffer.batches(12, 20)])
    assert (drawn == chosen).float().mean() > 0.95


def test_a_buffer_that_goes_on_from_a_state_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    for options in ({}, {"alpha": 0.6}, {"ratio": None}):
        buffer, other = create(tmp_path, **options), create(tmp_path, **options)
        list(buffer.batches(8, 3))
        other.load_state_dict(copy.deepcopy(buffer.state_dict()))
        assert same_tree(list(buffer.batches(8, 5)), list(other.batches(8, 5)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_path": ""}, "data_path: expected a data set, got none"),
        ({"gamma": Scheduled(0.9, lambda: 0.9)}, "discount_factor is a schedule"),
        ({"unroll_len": 4}, "learns from sequences"),
        ({"ratio": None, "alpha": 0.5}, "leave out alpha"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    arguments = {"data_path": write_expert(tmp_path / "expert.npz"), **options}
    with pytest.raises(ConfigError, match=message):
        DemonstrationReplayBuffer(64, 2, **arguments)


def test_a_run_first_learns_from_the_data_and_then_plays(tmp_path: Path) -> None:
    data_path = write_expert(tmp_path / "expert.npz")
    config = pair(tmp_path, "dqn", data_path=data_path, first_updates=250)
    config[0]["policy"]["other"]["replay_buffer"]["type"] = "demonstrations"
    words = [
        "policy.learn.batch_size=8",
        "policy.eval.evaluator.eval_freq=50",
        "policy.learn.learner.hook.log_show_after_iter=50",
    ]
    policy = serial_pipeline(config, seed=0, max_train_iter=400, overrides=words)
    assert policy.iteration >= 400
    records = metrics(tmp_path / "run")
    assert {record["envstep"] for record in records if record["train_iter"] <= 250} == {0}
    assert result(tmp_path / "run")["envstep"] == pytest.approx((policy.iteration - 250) / 3 * 2, abs=8 + 2)
    evaluated = [record["train_iter"] for record in records if "eval/return_mean" in record]
    assert evaluated[:3] == [0, 100, 200]  # before the policy plays, at the next of every 100 iterations


def test_the_config_takes_no_ratio_too(tmp_path: Path) -> None:
    config = pair(tmp_path, "dqn", data_path=write_expert(tmp_path / "expert.npz"), ratio=None)
    config[0]["policy"]["other"]["replay_buffer"]["type"] = "demonstrations"
    policy = serial_pipeline(config, seed=0, max_train_iter=20, overrides=["policy.learn.batch_size=8"])
    assert policy.iteration >= 20


def test_a_run_interrupted_before_it_plays_goes_on(tmp_path: Path) -> None:
    """Interrupted after 130 of 150 first updates, and compared with a run that was not."""
    data_path, ends = write_expert(tmp_path / "expert.npz"), []
    for name, limits in (("whole", [240]), ("parts", [100, 240])):
        for limit in limits:
            config = pair(tmp_path, "dqn", data_path=data_path, first_updates=150)
            config[0]["exp_name"] = str(tmp_path / name)
            config[0]["policy"]["other"]["replay_buffer"]["type"] = "demonstrations"
            words = [f"policy.learn.resume_training={limit != limits[0]}"]
            policy = serial_pipeline(config, seed=0, max_train_iter=limit, overrides=words)
        ends.append(policy.state_dict()["model"])
    assert same_tree(*ends)


@pytest.mark.slow
def test_two_ranks_learn_from_the_data_and_play(tmp_path: Path) -> None:
    write_expert(tmp_path / "expert.npz")
    words = ["train", "-c", "dqn.py", "--nproc", "2", "max_train_iter=300"]
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    buffer = dict(type="demonstrations", data_path="expert.npz", first_updates=200, alpha=0.6)
    policy = dict(priority=True, priority_IS_weight=True, other=dict(replay_buffer=buffer))
    main = dict(exp_name="run", env=env, policy=policy)
    (tmp_path / "dqn.py").write_text(f"main_config = {main}\ncreate_config = dict(policy=dict(type='dqn'))\n")
    run_forked(["-m", "ding_lite", *words], 300)
    assert result(tmp_path / "run")["train_iter"] >= 300
    assert result(tmp_path / "run")["world_size"] == 2


def test_a_reward_model_would_change_the_rewards_of_own_steps_alone(tmp_path: Path) -> None:
    config = pair(tmp_path, "dqn", data_path=write_expert(tmp_path / "expert.npz"))
    words = [f"{BUFFER}.type=demonstrations", "reward_model.type=rnd"]
    with pytest.raises(ConfigError, match="reward_model would change the rewards of the policy's own steps"):
        serial_pipeline(config, seed=0, max_env_step=400, overrides=words)


@pytest.mark.parametrize("next_obs", [True, False])
def test_the_first_step_alone_is_offered_beside_the_sum(tmp_path: Path, next_obs: bool) -> None:
    """Of the data: observations 100, 101, ... with rewards of 7; own observations are 0 with rewards of 3."""
    data_path = write_expert(tmp_path / "expert.npz", next_obs=next_obs)
    buffer = DemonstrationReplayBuffer(64, 2, data_path, nstep=3, gamma=GAMMA, seed=1, one_step=True)
    buffer.push(block(8))
    for batch in buffer.batches(10, 20):
        expert = batch["is_expert"]
        assert batch["reward_1"].tolist() == [7.0 if each else 3.0 for each in expert]
        number, last = batch["obs"][expert, 0] - 100, batch["done_1"][expert]
        assert last.tolist() == (number == ROWS - 1).tolist()
        after = batch["next_obs_1"][expert, 0] - batch["obs"][expert, 0]
        assert after[~last].tolist() == [1.0] * int((~last).sum())  # what follows a terminal state has no meaning
        assert batch["done"][expert].tolist() == (number >= ROWS - 3).tolist()
        assert not batch["next_obs_1"][~expert].any()


def test_a_policy_that_needs_what_no_data_has_is_refused(tmp_path: Path) -> None:
    config = pair(tmp_path, "ppo_offpolicy", data_path=write_expert(tmp_path / "expert.npz"))
    with pytest.raises(ConfigError, match="The policy learns from 'adv' of each step"):
        serial_pipeline(config, seed=0, max_env_step=400, overrides=[f"{BUFFER}.type=demonstrations"])
