"""T-REX: its loss and its pairs by hand, preferences from a file, demonstrations from a run's checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline_onpolicy
from ding_lite.imitation.expert import NUMBERED, record_checkpoints
from ding_lite.imitation.trex import TrexRewardModel, read_preferences
from ding_lite.offline.dataset import read_dataset
from ding_lite.utils import load_checkpoint
from ding_lite.utils.registry import ConfigError
from tests.imitation.helpers import build, make_block
from tests.policy.helpers import same_tree
from tests.run.helpers import metrics, run

LENGTHS = (3, 5, 4)  # of trajectories whose observations are their numbers, 0, 1 and 2
SHORT = {"min_snippet_length": 2, "max_snippet_length": 4, "batch_size": 8}


def write_ranked(path: Path, better: tuple[float, ...] = (1.0, 3.0, 2.0)) -> str:
    """Write three trajectories with these rewards of each step."""
    number = np.repeat(np.arange(3), LENGTHS)
    end = np.append(number[1:] != number[:-1], True)
    obs = np.stack([number, np.arange(len(number))], 1).astype(np.float32)
    columns: dict[str, Any] = {"obs": obs, "reward": np.array(better, np.float32)[number], "done": end}
    return write_data(path, columns | {"traj_flag": end})


def write_data(path: Path, columns: dict[str, Any]) -> str:
    rows = len(columns["obs"])
    np.savez(path, **columns, action=np.zeros(rows, np.int64))
    return str(path)


def create(path: str, **keys: Any) -> Any:
    return build(path, cls=TrexRewardModel, **{**SHORT, **keys})


def test_the_better_one_of_two_trajectories_has_the_larger_return(tmp_path: Path) -> None:
    model = create(write_ranked(tmp_path / "data.npz"))
    assert model._length_E.tolist() == [*LENGTHS]
    # returns 3, 15 and 8
    assert sorted(model._pairs_P2.tolist()) == [[0, 1], [0, 2], [2, 1]]


def test_snippets_lie_in_their_trajectories_and_the_better_one_starts_no_earlier(tmp_path: Path) -> None:
    model, generator = create(write_ranked(tmp_path / "data.npz")), torch.Generator().manual_seed(0)
    first = np.cumsum(LENGTHS) - LENGTHS
    numbers = np.repeat(np.arange(3), LENGTHS)
    seen = set()
    for _ in range(50):
        batch = model._draw(generator)
        for worse, better, length in zip(*batch["row"].tolist(), batch["length"].tolist(), strict=True):
            one, other = numbers[worse[0]], numbers[better[0]]
            assert [one, other] in model._pairs_P2.tolist()
            assert numbers[worse[:length]].tolist() == [one] * length
            assert numbers[better[:length]].tolist() == [other] * length
            assert np.diff(worse[:length]).tolist() == [1] * (length - 1)
            begun = worse[0] - first[one], better[0] - first[other]
            assert begun[1] >= min(begun[0], LENGTHS[other] - length)
            seen |= {(int(one), int(other), length, begun[1])}
    assert {length for _, _, length, _ in seen} == {2, 3, 4}  # of both: at most 3 with the shortest trajectory
    assert {start for one, other, length, start in seen if (one, other, length) == (2, 1, 2)} == {0, 1, 2, 3}


def test_the_loss_is_that_of_bradley_and_terry(tmp_path: Path) -> None:
    """R(s) is twice the number of the trajectory; of pair (0, 1) with 3 steps the sums are 0 and 6."""
    model = create(write_ranked(tmp_path / "data.npz"), l1_weight=0.5)
    model._network = torch.nn.Linear(2, 1, bias=False)
    model._network.weight.data = torch.tensor([[2.0, 0.0]])
    model._obs_R = torch.tensor([[float(number), 9.0] for number in np.repeat(np.arange(3), LENGTHS)])
    batch = {"row": torch.tensor([[[0, 1, 2, 0]], [[3, 4, 5, 11]]]), "length": torch.tensor([3])}
    loss, figures = model._loss(batch)
    # the fourth step lies outside of the snippet; |R| is 0 in three steps and 2 in the other three
    assert loss.item() == pytest.approx(-math.log(math.exp(6) / (1 + math.exp(6))) + 0.5 * 1.0)
    assert figures["accuracy"].item() == 1.0


def test_it_learns_the_order_and_is_fixed_afterwards(tmp_path: Path) -> None:
    model = create(write_ranked(tmp_path / "data.npz"), num_snippets=400, train_epoch=4, learning_rate=0.01)
    block = make_block(torch.zeros(3, 2, dtype=torch.int64))
    block["obs"] = torch.tensor([[[float(step), 5.0]] * 2 for step in (0, 2, 1)])
    reward_TN = model.process(block)["reward"]
    assert reward_TN[0, 0] < reward_TN[1, 0] < reward_TN[2, 0]  # trajectories 0, 2 and 1
    assert 0.0 < float(reward_TN.min()) < float(reward_TN.max()) < 1.0
    steps = model._optimizer.steps
    assert torch.equal(model.process(block)["reward"], reward_TN)
    assert model._optimizer.steps == steps == 4 * 50
    model._cfg.reward_transform = "scale"
    scaled_TN = model.process(block)["reward"]
    torch.testing.assert_close(scaled_TN, reward_TN.logit() / model._scale, rtol=1e-3, atol=1e-3)


def test_preferences_take_the_place_of_returns(tmp_path: Path) -> None:
    path = tmp_path / "preferences.jsonl"
    path.write_text("[1, 0]\n[2, 0]\n")
    model = create(write_ranked(tmp_path / "data.npz"), preferences_path=str(path))
    assert model._pairs_P2.tolist() == [[1, 0], [2, 0]]


@pytest.mark.parametrize("line", ["[0, 3]", "[1, 1]", "[0]", "0, 1", '["a", "b"]', "[0, 1, 2]", "[-1, 0]"])
def test_a_line_that_is_no_preference_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "preferences.jsonl"
    path.write_text(f"[0, 1]\n{line}\n")
    with pytest.raises(ConfigError, match=r"line 2: expected \[i, j\], two different trajectories from 0 to 2"):
        read_preferences(str(path), 3)
    path.write_text("")
    with pytest.raises(ConfigError, match="has no line"):
        read_preferences(str(path), 3)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_preferences(str(tmp_path / "missing"), 3)


def test_equal_returns_say_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="all 3 trajectories have the same return"):
        create(write_ranked(tmp_path / "data.npz", better=(5.0, 3.0, 3.75)))  # 15 each


def test_a_run_learns_from_anothers_checkpoints_and_resumes() -> None:
    words = ["policy.learn.learner.hook.keep_ckpt=0", "policy.learn.learner.hook.save_ckpt_after_iter=40"]
    run("exp_name=demo", *words)
    path = record_checkpoints("demo", 2)
    dataset = read_dataset(path, required=("obs", "action", "reward", "done"))
    number = sum(bool(NUMBERED.fullmatch(path.name)) for path in Path("demo/ckpt").iterdir())
    assert len(dataset.trajectories()[0]) == 2 * number
    own = ["reward_model.type=trex", "reward_model.data_path=demo", "reward_model.expert_episodes=2"]
    own += ["reward_model.num_snippets=128", "reward_model.min_snippet_length=5", "reward_model.max_snippet_length=20"]
    Path("preferences.jsonl").write_text("[0, 5]\n[1, 7]\n")  # all episodes of these few iterations are equally long
    own.append("reward_model.preferences_path=preferences.jsonl")
    run("exp_name=whole", *own)
    logged = [record for record in metrics(Path("whole")) if "reward_model/accuracy" in record]
    assert len(logged) == 1
    returns = [record["collect/return_mean"] for record in metrics(Path("whole")) if "collect/return_mean" in record]
    assert all(value == pytest.approx(round(value * 24) / 24) for value in returns)  # the environment's, of 1 a step
    run("exp_name=parts", *own, max_env_step=160)
    run("exp_name=parts", *own, "policy.learn.resume_training=True")
    whole, parts = (load_checkpoint(f"{name}/ckpt/ckpt_last.pth.tar") for name in ("whole", "parts"))
    assert same_tree(whole["reward_model"]["networks"], parts["reward_model"]["networks"])
    assert same_tree(whole["policy"]["model"], parts["policy"]["model"])


def test_an_on_policy_run_takes_its_rewards_too(tmp_path: Path) -> None:
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    rng, rows = np.random.default_rng(0), 60
    end = np.arange(rows) % 20 == 19
    columns = {"obs": rng.normal(size=(rows, 4)).astype(np.float32), "reward": np.arange(rows, dtype=np.float32)}
    data = write_data(tmp_path / "data.npz", columns | {"done": end, "traj_flag": end})
    reward_model = dict(type="trex", data_path=data, num_snippets=64, min_snippet_length=2, max_snippet_length=9)
    config = dict(exp_name=str(tmp_path / "run"), env=env, reward_model=reward_model, policy=dict(num_threads=1))
    policy = serial_pipeline_onpolicy((config, dict(policy=dict(type="ppo"))), seed=0, max_train_iter=20)
    assert policy.iteration >= 20


def test_keys_of_di_engine_have_their_names_here() -> None:
    section: dict[str, Any] = dict(min_snippet_length=5, max_snippet_length=100, checkpoint_min=0, checkpoint_max=500)
    section |= dict(checkpoint_step=100, learning_rate=1e-5, update_per_collect=3, num_trajs=6, num_snippets=6000)
    section |= dict(expert_model_path="expert", reward_model_path="a", data_path="b")
    main = dict(env=dict(env_id="CartPole-v1"), reward_model=section)
    cfg = compile_config((main, dict(policy=dict(type="dqn"))))
    own = cfg.reward_model
    assert (own.type, own.data_path, own.train_epoch, own.num_snippets) == ("trex", "expert", 3, 6000)


def test_one_checkpoint_is_no_ranking(tmp_path: Path) -> None:
    (tmp_path / "demo" / "ckpt").mkdir(parents=True)
    (tmp_path / "demo" / "total_config.py").write_text("")
    (tmp_path / "demo" / "ckpt" / "iteration_0.pth.tar").write_text("")
    with pytest.raises(ConfigError, match="has 1 checkpoints, and demonstrations of different quality need several"):
        record_checkpoints(str(tmp_path / "demo"), 1)
