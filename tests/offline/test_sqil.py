"""SQIL's batches are half an expert's with reward 1 and half the policy's own with reward 0, and are drawn again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.entry import serial_pipeline, serial_pipeline_sqil
from ding_lite.offline.files import write_columns
from ding_lite.offline.serial_entry_offline import EXPERT_STEPS
from ding_lite.utils.registry import ConfigError
from ding_lite.worker import DatasetError, SQILReplayBuffer, read_dataset
from tests.policy.helpers import same_tree

GAMMA, ROWS = 0.5, 10
BUFFER = "policy.other.replay_buffer"


def write_expert(path: Path, size: int = 4, next_obs: bool = True) -> str:
    """Write one episode, whose observations are 100, 101, ..., whose action is 1 and whose true rewards are 7."""
    obs = 100.0 + np.arange(ROWS + 1, dtype=np.float32)[:, None].repeat(size, 1)
    done = np.arange(ROWS) == ROWS - 1
    columns = {"obs": obs[:-1], "action": np.ones(ROWS, np.int64), "done": done}
    columns |= {"next_obs": obs[1:]} if next_obs else {}
    columns |= {"reward": np.full(ROWS, 7.0, np.float32), "traj_flag": done}
    write_columns(str(path), columns, {"action_units": "env"})
    return str(path)


def create(path: Path, nstep: int) -> SQILReplayBuffer:
    """Return a buffer with 8 steps of 2 environments, whose observations are 0 and whose rewards are 3."""
    buffer = SQILReplayBuffer(64, 2, write_expert(path / "expert.npz"), nstep=nstep, gamma=GAMMA, seed=1)
    flags = torch.zeros(8, 2, dtype=torch.bool)
    block: dict[str, Any] = {"obs": torch.zeros(8, 2, 4), "last_obs": torch.zeros(2, 4), "done": flags}
    block |= {"action": torch.zeros(8, 2, dtype=torch.int64), "reward": torch.full((8, 2), 3.0), "traj_flag": flags}
    buffer.push(block | {"episode_step": torch.arange(8)[:, None].expand(8, 2)})
    return buffer


@pytest.mark.parametrize("nstep", [1, 2])
def test_half_of_a_batch_is_the_experts_with_reward_1_and_the_rest_has_reward_0(nstep: int, tmp_path: Path) -> None:
    seen = set()
    for batch in create(tmp_path, nstep).batches(9, 40):
        own, expert = ({key: value[part] for key, value in batch.items()} for part in (slice(5), slice(5, None)))
        assert len(batch["index"]) == 5
        assert (own["obs"], own["action"], own["reward"]) == (pytest.approx(0.0),) * 3
        number = expert["obs"][:, 0] - 100
        left = (ROWS - number).clamp(max=nstep)  # steps until the episode ends
        torch.testing.assert_close(expert["next_obs"][:, 0], expert["obs"][:, 0] + left)
        torch.testing.assert_close(expert["reward"], 1 + GAMMA * (left - 1))
        torch.testing.assert_close(expert["value_gamma"], GAMMA**left)
        assert expert["done"].tolist() == (number + nstep >= ROWS).tolist()
        assert expert["action"].tolist() == [1] * 4
        seen |= set(number.tolist())
    assert seen == set(range(ROWS))


def test_learning_begins_when_there_are_as_many_own_samples_as_a_batch_has(tmp_path: Path) -> None:
    assert create(tmp_path, 1).count() == 14  # the newest of eight steps has no successor yet; the data do not count


def test_a_buffer_that_goes_on_from_a_state_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    buffer, other = create(tmp_path, 1), create(tmp_path, 1)
    list(buffer.batches(8, 3))
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    assert same_tree(list(buffer.batches(8, 5)), list(other.batches(8, 5)))


def pair(path: Path, kind: str, **buffer: Any) -> Any:
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    policy = dict(other=dict(replay_buffer=dict(type="sqil", **buffer)), model=dict(encoder_hidden_size_list=[8, 8]))
    return dict(exp_name=str(path / "run"), env=env, policy=policy), dict(policy=dict(type=kind))


@pytest.mark.parametrize(
    ("kind", "size", "words", "message"),
    [
        ("sql", 4, f"{BUFFER}.data_path=", "data_path: expected a data set, got none: record one"),
        ("sql", 3, "", "key 'obs': expected [4] in each row, as the environment has it, got [3]"),
        ("dqn", 4, "policy.priority=True", "policy.priority=True has no effect on the buffer 'sqil'"),
        ("ppo_offpolicy", 4, "", "The policy learns from 'adv' of each step, which no data set has"),
        # The expert's reward would be divided by the deviation of returns, and its last step followed by itself.
        ("dqn", 4, "env.norm_reward=True", f"env.norm_reward would change the rewards of {BUFFER}.type='sqil'"),
        ("dqn", 4, "reward_model.type=rnd", f"reward_model would change the rewards of {BUFFER}.type='sqil'"),
        ("dqn", 4, "policy.learn.ignore_done=True", "expert.npz' has no column next_obs: add it, or set ignore_done="),
    ],
)
def test_what_cannot_be_imitated_is_refused_in_one_line(
    kind: str, size: int, words: str, message: str, tmp_path: Path
) -> None:
    data_path = write_expert(tmp_path / "expert.npz", size, next_obs="ignore_done" not in words)
    with pytest.raises((ConfigError, DatasetError)) as caught:
        serial_pipeline(pair(tmp_path, kind, data_path=data_path), seed=0, max_env_step=400, overrides=words.split())
    assert message in str(caught.value)


def test_di_engines_name_takes_the_data_set_or_the_experts_config(tmp_path: Path) -> None:
    config: Any = pair(tmp_path, "sql")
    del config[0]["policy"]["other"]
    policy = serial_pipeline_sqil(config, write_expert(tmp_path / "expert.npz"), 0, max_train_iter=20)
    assert policy.iteration >= 20
    expert: Any = copy.deepcopy(config)
    expert[0]["exp_name"] = str(tmp_path / "expert")
    serial_pipeline(expert, seed=0, max_train_iter=5)
    config[0]["policy"]["collect"] = dict(model_path=str(tmp_path / "expert" / "ckpt" / "ckpt_last.pth.tar"))
    policy = serial_pipeline_sqil(config, expert, seed=0, max_train_iter=20)
    assert policy.iteration >= 20
    assert len(read_dataset(str(tmp_path / "run_expert.npz"))) == EXPERT_STEPS
    with pytest.raises(ConfigError, match="expected the expert's data set or its config, got int 3"):
        serial_pipeline_sqil(config, 3, seed=0)
