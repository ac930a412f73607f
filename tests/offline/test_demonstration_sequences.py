"""Batches of own sequences and of a data set's: what they hold, shares, priorities, runs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from ding_lite.entry import serial_pipeline, serial_pipeline_r2d3
from ding_lite.envs.actions import ActionUnits
from ding_lite.offline.demonstration_sequences import DemonstrationSequenceBuffer
from ding_lite.utils.registry import ConfigError
from tests.distributed.launcher import run_forked
from tests.policy.helpers import same_tree
from tests.run.helpers import result

LENGTHS, SPACE = (9, 6, 9), Box(-np.inf, np.inf, (4,), np.float32)
UNROLL, BURNIN, NSTEP, GAMMA = 3, 1, 2, 0.5
SPAN = UNROLL + BURNIN + NSTEP - 1


def write_expert(path: Path, next_obs: bool = True) -> str:
    """Write trajectories of observations 100, 101, ..., 200, ... and the same rewards; the second one terminates."""
    number_R = np.concatenate([100.0 * (i + 1) + np.arange(length) for i, length in enumerate(LENGTHS)])
    last_R = np.zeros(len(number_R), np.bool_)
    last_R[np.cumsum(LENGTHS) - 1] = True
    columns: dict[str, Any] = dict(obs=np.repeat(number_R[:, None], 4, 1).astype(np.float32))
    columns |= dict(action=np.arange(len(number_R)) % 2, reward=number_R.astype(np.float32), traj_flag=last_R)
    columns["done"] = last_R & (number_R >= 200) & (number_R < 300)
    if next_obs:
        columns["next_obs"] = columns["obs"] + 1
    np.savez(path, **columns)
    return str(path)


def create(path: Path, steps: int = 12, next_obs: bool = True, **options: Any) -> DemonstrationSequenceBuffer:
    """Return a buffer with steps of 2 environments, whose observations and rewards are negative."""
    data_path = write_expert(path / "expert.npz", next_obs)
    sizes: dict[str, Any] = dict(unroll_len=UNROLL, burnin_step=BURNIN, nstep=NSTEP, gamma=GAMMA, seed=1)
    buffer = DemonstrationSequenceBuffer(64, 2, data_path, **(sizes | options))
    buffer.fit(SPACE, ActionUnits(Discrete(2), False))
    if steps:
        buffer.push(block(steps))
    return buffer


def block(steps: int) -> dict[str, Any]:
    """Return one episode of each of 2 environments, truncated after 7 steps, and the beginning of the next."""
    number_TN = -torch.arange(1.0, steps + 1)[:, None].expand(steps, 2) - torch.tensor([0.0, 100.0])
    cut_TN = torch.zeros(steps, 2, dtype=torch.bool)
    cut_TN[6] = True
    rows: dict[str, Any] = {"obs": number_TN[..., None].repeat(1, 1, 4), "reward": number_TN, "traj_flag": cut_TN}
    rows |= {"done": torch.zeros_like(cut_TN), "action": torch.zeros(steps, 2, dtype=torch.int64)}
    rows |= {"last_obs": torch.zeros(2, 4), "final_index": torch.tensor([12, 13]), "final_obs": torch.ones(2, 4)}
    step_T = torch.arange(steps)
    rows["episode_step"] = torch.where(step_T < 7, step_T, step_T - 7)[:, None].expand(steps, 2).int()
    return rows | {"prev_state": {"h": torch.ones(steps, 2, 5)}}


@pytest.mark.parametrize("next_obs", [True, False])
def test_sequences_of_the_data_are_what_was_recorded(tmp_path: Path, next_obs: bool) -> None:
    buffer, seen, truncated = create(tmp_path, next_obs=next_obs, ratio=0.9), set[float](), 0
    for batch in buffer.batches(20, 40):
        assert batch["is_expert"].tolist() == [False] * 2 + [True] * 18
        assert batch["obs"].shape == (SPAN, 20, 4)
        finals = dict(zip(batch.get("final_index", torch.empty(0)).tolist(), batch.get("final_obs", ()), strict=True))
        for b in range(2, 20):
            number_T, start_T = batch["obs"][:, b, 0], batch["episode_start"][:, b]
            seen.add(float(number_T[0]))
            assert start_T.tolist() == [float(number) in (100.0, 200.0, 300.0) for number in number_T]
            follows = number_T[1:] == number_T[:-1] + 1
            assert (follows | start_T[1:]).all()
            cut_T = batch["traj_flag"][:, b]
            assert torch.equal(cut_T[:-1], start_T[1:])
            # the sum of two rewards ends with the trajectory
            number_L, goes_on_L = number_T[: UNROLL + BURNIN], ~cut_T[: UNROLL + BURNIN]
            expected_L = number_L + GAMMA * goes_on_L * (number_L + 1)
            torch.testing.assert_close(batch["reward"][:, b], expected_L)
            for t in range(SPAN - 1):
                if cut_T[t] and number_T[t] < 200:  # truncated, and not the end of the second trajectory
                    truncated += 1
                    assert finals[t * 20 + b].tolist() == [float(number_T[t]) + 1] * 4
            assert not batch["prev_state"]["h"][b].any()
        assert batch["prev_state"]["h"][:2].all()
        for place, obs in finals.items():
            if place % 20 < 2:
                assert obs.tolist() == [1.0] * 4
                assert batch["traj_flag"].flatten()[place]
    kept = LENGTHS if next_obs else (8, 6, 8)  # what followed the last steps of truncated ones is unknown
    numbers = [100.0 * (i + 1) + step for i, length in enumerate(kept) for step in range(length)]
    assert seen == set(numbers[: len(numbers) - SPAN + 1])
    assert truncated


def test_priorities_of_both_kinds_are_set_and_saved(tmp_path: Path) -> None:
    buffer = create(tmp_path, ratio=0.5, alpha=1.0)
    batch = buffer.sample(20)
    places = buffer.ring.num_places
    assert ((batch["index"] >= places) == batch["is_expert"]).all()
    chosen = int(batch["index"][-1])
    index = torch.arange(places + buffer._data_ring.num_places)
    buffer.update(index, torch.where(index == chosen, 1e4, 1e-4))
    other = create(tmp_path, steps=0, ratio=0.5, alpha=1.0)
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    for each in zip(buffer.batches(10, 3), other.batches(10, 3), strict=True):
        assert same_tree(*each)
        assert (each[0]["index"][5:] == chosen).all()
        assert len(set(each[0]["index"][:5].tolist())) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [({"unroll_len": None}, "is for policies with unroll_len"), ({"unroll_len": 40}, "24 steps, fewer than the 42")],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(tmp_path, steps=0, **options)


def pair(kind: str = "r2d3", **buffer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    policy = dict(
        num_threads=1,
        unroll_len=4,
        burnin_step=2,
        nstep=2,
        priority=True,
        priority_IS_weight=True,
        model=dict(encoder_hidden_size_list=[8, 8]),
        learn=dict(batch_size=8),
        eval=dict(evaluator=dict(eval_freq=10**6)),
        other=dict(replay_buffer=dict(type="demonstration_sequences", **buffer)),
    )
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    return dict(exp_name="run", env=env, policy=policy), dict(policy=dict(type=kind))


def test_a_resumed_run_equals_a_whole_one(tmp_path: Path) -> None:
    data_path, ends = write_expert(tmp_path / "expert.npz"), []
    for name, limits in (("whole", [40]), ("parts", [20, 40])):
        for limit in limits:
            words = [f"policy.learn.resume_training={limit != limits[0]}", f"exp_name={tmp_path / name}"]
            config = pair(data_path=data_path)
            policy = serial_pipeline(config, seed=0, max_train_iter=limit, overrides=words)
        ends.append(policy.state_dict()["model"])
    assert same_tree(*ends)


def test_r2d2_learns_from_demonstrations_too_and_ngu_is_refused(tmp_path: Path) -> None:
    data_path = write_expert(tmp_path / "expert.npz")
    assert serial_pipeline(pair("r2d2", data_path=data_path), seed=0, max_train_iter=10).iteration >= 10
    main, create_config = pair("ngu", data_path=data_path)
    main["policy"]["num_policies"] = 2
    with pytest.raises(ConfigError, match="The policy learns from 'discount' of each step, which no data set has"):
        serial_pipeline((main, create_config), seed=0, max_train_iter=10)


def test_the_pipeline_of_di_engines_name_takes_a_data_set(tmp_path: Path) -> None:
    main, create_config = pair()
    del main["policy"]["other"]
    data_path = write_expert(tmp_path / "expert.npz")
    assert serial_pipeline_r2d3((main, create_config), data_path, seed=0, max_train_iter=10).iteration >= 10


@pytest.mark.slow
def test_two_ranks_learn_from_the_data_and_one_goes_on(tmp_path: Path) -> None:
    main, create_config = pair(data_path=write_expert(tmp_path / "expert.npz"))
    (tmp_path / "r2d3.py").write_text(f"main_config = {main}\ncreate_config = {create_config}\n")
    run_forked(["-m", "ding_lite", "train", "-c", "r2d3.py", "--divide", "--nproc", "2", "max_train_iter=30"], 300)
    assert result(tmp_path / "run")["world_size"] == 2
    run_forked(["-m", "ding_lite", "resume", "run", "--nproc", "1", "max_train_iter=50"], 300)
    assert result(tmp_path / "run")["train_iter"] >= 50
