"""One agent and two observers, as real processes: gradients, whole runs, what is refused, and what ends a run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.entry import serial_pipeline_rpc
from ding_lite.observers.serial_entry_rpc import find_encoder
from ding_lite.utils import ConfigError
from dizoo.classic_control.cartpole.config.cartpole_pg_rpc_config import create_config, main_config
from tests.distributed.launcher import ROOT, finish, launch, run_ranks, start_by_hand
from tests.distributed.on_ranks import call_on_ranks
from tests.distributed.rpc_ranks import compare_all
from tests.policy.actors import make_actor
from tests.run.helpers import last_checkpoint, metrics
from tests.run.helpers import result as read_result

ME = ["-m", "tests.distributed.call", "tests.distributed.rpc_ranks"]
CONFIG = ROOT / "dizoo" / "classic_control" / "cartpole" / "config" / "cartpole_pg_rpc_config.py"
RANKS = range(3)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("compare")
    found = call_on_ranks(compare_all, nproc=3, cwd=folder)
    assert os.listdir(folder) == []  # nothing of the configs that were refused
    return found


@pytest.mark.parametrize(("model", "tolerance"), [("pg", 1e-6), ("pg_double", 1e-9)])
def test_gradients_and_parameters_are_those_of_one_process(compared: Any, model: str, tolerance: float) -> None:
    found = compared[0][model]
    assert found["sizes"][0] != found["sizes"][1]  # parts of a batch are uneven
    split, whole = found["steps"]
    assert len(split) == len(whole) == 3 + round(sum(found["sizes"]) / 40)  # uneven ones, then one epoch
    moved = whole[-1]["parameters"] - whole[0]["parameters"]
    assert moved.abs().max() > 100 * tolerance
    for step, expected in zip(split, whole, strict=True):
        for key in ("gradient", "parameters", "loss"):
            torch.testing.assert_close(step[key], expected[key], rtol=tolerance, atol=tolerance)
    assert split[0]["gradient"].dtype == (torch.float64 if model == "pg_double" else torch.float32)


def test_observers_play_environments_of_their_own_and_keep_the_observations(compared: Any) -> None:
    found = compared[0]["pg"]
    first, second = found["shown"]
    assert (len(first), len(second)) == tuple(found["sizes"])
    starts = {tuple(row.tolist()) for part in found["shown"] for row in part[:2]}
    assert len(starts) == 4  # two environments each, none twice
    samples, total = found["samples"], sum(found["sizes"])
    places = [[rank, index] for rank, part in enumerate(found["shown"], 1) for index in range(len(part))]
    assert samples["obs"].tolist() == places  # not observations
    assert all(len(column) == total for column in samples.values())
    assert found["figures"]["episode"] == 8
    assert found["figures"]["return"] == found["figures"]["length"] == total  # one for every step


def test_actions_are_drawn_as_in_one_process_by_a_generator_for_each_observer(compared: Any) -> None:
    found = compared[0]["pg"]
    first, second = found["samples"]["action"].split(found["sizes"])
    assert [first[:2].tolist(), second[:2].tolist()] == found["drawn"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("train")
    done = run_ranks([*ME, "rank_train"], nproc=3, timeout=120, cwd=folder)
    return folder, done.stderr


def test_a_run_that_is_resumed_equals_one_that_was_not_stopped(trained: tuple[Path, str]) -> None:
    hashes = json.loads((trained[0] / "hashes.json").read_text())
    assert hashes["parts"] == hashes["whole"]


def test_a_run_leaves_behind_what_other_runs_do(trained: tuple[Path, str]) -> None:
    folder, told = trained
    result = read_result(folder / "whole")
    assert (result["stop_reason"], result["observers"]) == ("max_env_step", 2)
    assert 1200 <= result["envstep"] < 2000
    assert result["episode_count"] % 8 == 0
    state = last_checkpoint(folder / "whole")
    assert "encoder.0.weight" in state["policy"]["model"]
    assert state["learner"]["train_iter"] == result["train_iter"]
    records = metrics(folder / "whole")
    assert {"train/policy_loss", "collect/return_mean", "eval/return_mean"} <= set().union(*records)
    rates = [record["train/learning_rate"] for record in records if "train/learning_rate" in record]
    assert rates[-1] < 0.9 * rates[0]  # the schedule of env steps, which the observers play
    for words in (
        "1 agent, 2 observers (rpc)",
        "64 of all observers, 1 epochs a collect",
        "4 episodes an observer, 8 global",
        "2 an observer (base), 4 global",
    ):
        assert told.count(words) == 3  # runs, each told of once
    assert "serial_pipeline_rpc" in (folder / "whole" / "total_config.py").read_text()
    assert sorted(os.listdir(folder)) == ["hashes.json", "parts", "whole"]
    assert "Warning" not in told


def test_configs_that_cannot_be_run_are_one_line_on_every_rank(compared: Any) -> None:
    for rank in RANKS:
        unknown, differing, uncounted, divided, other = compared[rank]["refused"]
        assert "ConfigError: Unknown key 'policy.lern'" in unknown
        assert "policy.learn.batch_size is 60 on rank 0, 61 on rank 1, 62 on rank 2" in differing
        assert "policy.discount_factor.by: expected 'env_step', got 'iteration', because the observers" in uncounted
        assert "policy.divide=True: in mode rpc only the agent learns" in divided
        assert "ConfigError" in other
        assert "serial_pipeline(...)" in other
    assert "calls the model's encoder twice" in compared[0]["pg"]["twice"]


# -- failures, without a launcher that would end the others -----------------------------------------------------------

FAULTS = {  # what rank 2 does in its 40th env step, or in its first learning step, and what the others say of it
    "kill": "is gone: it was killed",
    "encode": "failed: ArithmeticError: boom",
}


def by_hand(fault: str, folder: Path) -> tuple[list[subprocess.CompletedProcess[str]], float]:
    """Run three ranks, of which one fails; return them, and how long after that they had all ended."""
    ranks = start_by_hand([*ME, "rank_fail"], 3, folder, FAIL=fault, DING_LITE_TIMEOUT="5")
    done = [finish(rank, 60) for rank in ranks]
    (failed,) = re.findall(r"^failing at (\S+)$", "".join(rank.stdout for rank in done), re.MULTILINE)
    return done, time.time() - float(failed)


@pytest.mark.parametrize("fault", FAULTS)
def test_whoever_fails_is_named_by_all_the_others(tmp_path: Path, fault: str) -> None:
    done, seconds = by_hand(fault, tmp_path)
    assert seconds < 30
    for rank in range(2):
        assert done[rank].returncode == 1
        (line,) = [line for line in done[rank].stderr.splitlines() if line.startswith(f"[rank {rank}]")]
        assert re.match(rf"\[rank {rank}\] ends because rank 2 \(pid [0-9]+ on .*\):? {FAULTS[fault]}", line)
    assert done[2].returncode not in (0, None)
    assert ("[rank 2]" in done[2].stderr) == (fault == "encode")
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_signal_to_one_observer_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    done, _ = by_hand("interrupt", tmp_path)
    assert [rank.returncode for rank in done] == [128 + signal.SIGUSR1] * 3
    result = read_result(tmp_path / "run")
    assert (result["stop_reason"], result["signal"]) == ("interrupted", signal.SIGUSR1)
    assert (tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar").exists()


@pytest.mark.learn
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 3])
def test_one_agent_and_two_observers_solve_cartpole(tmp_path: Path, seed: int) -> None:
    words = ["-m", "ding_lite", "-m", "rpc", "-c", str(CONFIG), "-s", str(seed), "exp_name=run", "max_env_step=400000"]
    done = launch(words, nproc=3, timeout=850, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "run")
    assert result["stop_reason"] == "stop_value"
    assert result["eval_return_mean"] >= 195


# -- what one process shows -------------------------------------------------------------------------------------------


def test_one_process_is_told_how_to_start_more() -> None:
    with pytest.raises(ConfigError, match=r"at least one observer.*torchrun --nproc_per_node=3.*ding_lite -m rpc"):
        serial_pipeline_rpc((main_config, create_config))


def test_a_model_without_encoder_and_head_is_refused_with_what_it_has() -> None:
    policy = make_actor("a2c")
    with pytest.raises(ConfigError, match=r"'VAC' cannot be split.*got encoder, actor_head, critic_head"):
        find_encoder(policy)


def test_an_encoder_with_buffers_is_refused() -> None:
    policy = make_actor("pg")
    assert find_encoder(policy) is policy.model.encoder
    find_encoder(policy).add_module("norm", nn.BatchNorm1d(4))
    with pytest.raises(ConfigError, match=r"buffers \(.*running_mean"):
        find_encoder(policy)
