"""What a run says fits a terminal, and says what the user wants to know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ding_lite.run.reporter import describe_shares
from tests.run.helpers import metrics, run


def test_notes_about_the_machine_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": False})
    monkeypatch.setattr("ding_lite.run.setup.usable_cores", lambda: 2)
    words = ["policy.cuda=True", "policy.precision=bf16", "policy.num_threads=64", "policy.learn.batch_size=8"]
    run(*words, max_env_step=32)
    said = capfd.readouterr().err
    assert "this processor has no bf16 instructions" in said
    assert "policy.num_threads=64 exceeds the cores: using 2." in said
    assert "2 thread(s) a rank" in said
    assert len(said.splitlines()) > 10
    assert not [line for line in said.splitlines() if len(line) > 80]


def test_the_end_of_a_run_says_what_took_its_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spent = {"environments": 0.5, "acting": 1.5, "learning": 2.0, "evaluation": 0.01}
    assert (
        describe_shares(spent, env_steps=4010)
        == "  1,000 env steps a second; learning 50%, acting 37%, environments 12%\n"
    )
    assert describe_shares({"learning": 0.5}, env_steps=100) == ""
    monkeypatch.setattr("ding_lite.run.reporter.PERIOD_OF_SHARES", 0.0)
    run(max_env_step=320)
    line = next(line for line in capfd.readouterr().err.splitlines() if "env steps a second;" in line)
    assert {"learning", "acting", "environments", "evaluation"} >= set(re.findall(r"([a-z]+) \d+%", line))
    assert 95 < sum(map(int, re.findall(r"(\d+)%", line))) < 105


def test_returns_that_leave_the_support_are_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main = {"env": {"env_id": "CartPole-v0"}, "policy": {"model": {"v_min": -1.0, "v_max": 1.0}}}
    run("policy.learn.update_per_collect=5", input_cfg=(main, {"policy": {"type": "c51"}}), max_env_step=320)
    assert len([record for record in metrics(tmp_path / "run") if record.get("train/clipped_share", 0) > 0.2]) > 1
    said = " ".join(capfd.readouterr().err.split())
    assert said.count("returns leave the range of the atoms: widen policy.model.v_min and policy.model.v_max") == 1


def test_an_evaluation_that_waits_for_ever_is_explained_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ding_lite.worker.evaluator.PROGRESS_PERIOD", 0.0)
    env = {"env_id": "FrozenLake-v1", "kwargs": {"is_slippery": False}}
    pair = ({"env": env}, {"env": {"type": "gymnasium"}, "policy": {"type": "dqn"}})
    run(input_cfg=pair, max_env_step=8, seed=3)  # its first policy walks against the wall
    said = " ".join(capfd.readouterr().err.split())
    assert said.count("no episode ends and no observation changes") == 1
    assert "env.max_episode_steps ends such episodes." in said
