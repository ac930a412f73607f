"""When a run says that it will reach its goal."""

from __future__ import annotations

import pytest
from easydict import EasyDict

from ding_lite.run.summary import forecast
from tests.run.helpers import run

GOAL = ("env.stop_value=500", "env.expected_env_step=300")
SAID = "Runs of this config reach a return of 500 after about 300 env steps"


def test_the_message_fits_the_terminal_and_its_commands_a_shell() -> None:
    message = forecast(EasyDict(stop_value=20.5, expected_env_step=165_000), "runs/pong seed0", 11_100, 100.0)
    assert "100 env steps a second" in message
    assert "in 25:39 from now" in " ".join(message.split())  # (165,000 - 11,100) / 100 = 1,539 s
    assert "ding_lite plot 'runs/pong seed0'" in message
    assert max(map(len, message.splitlines())) < 80


@pytest.mark.parametrize(
    ("period", "max_env_step", "times"),
    [(1e-9, 400, 1), (60.0, 400, 0), (1e-9, 200, 0)],  # the last run ends before the goal is due
    ids=["said", "too early", "limit first"],
)
def test_a_run_says_it_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], period: float, max_env_step: int, times: int
) -> None:
    monkeypatch.setattr("ding_lite.run.reporter.PERIOD", period)
    run(*GOAL, max_env_step=max_env_step)
    assert " ".join(capfd.readouterr().err.split()).count(SAID) == times


def test_a_run_that_is_past_its_goal_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ding_lite.run.reporter.PERIOD", 1e-9)
    run(GOAL[0], "env.expected_env_step=8", max_env_step=400)
    assert "Runs of this config" not in capfd.readouterr().err
