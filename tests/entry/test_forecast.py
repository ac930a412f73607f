"""When a run says that it will reach its goal."""

from __future__ import annotations

import pytest
from easydict import EasyDict

from ding_lite.entry.forecast import Forecast
from tests.entry.helpers import run

ENV = EasyDict(stop_value=20.5, expected_env_step=165_000)


def test_a_run_says_once_when_it_expects_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("ding_lite.entry.forecast.time.monotonic", lambda: now)
    forecast = Forecast(ENV, "runs/pong seed0")
    said = []
    for second in range(200):
        now = float(second)
        learned = max(0, second - 20)  # seconds of learning, after 20 that only collect
        said.append(forecast.update(250 * min(second, 20) + 100 * learned, 10 * learned))
    messages = [message for message in said if message]
    assert said.index(messages[0]) == 81  # a minute after the first collect with iterations
    assert len(messages) == 1
    assert "100 env steps a second" in messages[0]
    assert "in 25:39 from now" in " ".join(messages[0].split())  # (165,000 - 5,000 - 6,100) / 100 = 1,539 s
    assert "ding_lite plot 'runs/pong seed0'" in messages[0]
    assert max(map(len, messages[0].splitlines())) < 80


@pytest.mark.parametrize("change", [{"expected_env_step": None}, {"expected_env_step": 1000}])
def test_without_a_goal_ahead_nothing_is_said(monkeypatch: pytest.MonkeyPatch, change: dict[str, object]) -> None:
    now = 0.0
    monkeypatch.setattr("ding_lite.entry.forecast.time.monotonic", lambda: now)
    forecast = Forecast(EasyDict(ENV | change), "run")
    for second in range(0, 200, 10):
        now = float(second)
        assert not forecast.update(100 * second, 10 * second)


def test_a_run_prints_its_forecast(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("ding_lite.entry.forecast.PERIOD", 1e-9)
    run("env.expected_env_step=300", "env.stop_value=500", max_env_step=160)
    said = " ".join(capfd.readouterr().err.split())
    assert said.count("Runs of this config reach a return of 500 after about 300 env steps") == 1
