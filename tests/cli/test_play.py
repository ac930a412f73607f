"""`play PATH` shows episodes in a window, and says what to do without a screen."""

from __future__ import annotations

import pytest

from ding_lite.utils.registry import ConfigError
from tests.cli.commands import call

pytestmark = pytest.mark.usefixtures("run_directory")
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


def test_episodes_are_played_in_a_window(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a window without a screen
    call("play", "run", "--episodes", "2")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("episode 1: return ")
    assert second.startswith("episode 2: return ")


def test_without_a_screen_it_names_the_other_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SCREENS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ConfigError, match=r"no screen .*: use `ding_lite video run`"):
        call("play", "run")
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")
    with pytest.raises(ConfigError, match=r"No window can be opened .*: use `ding_lite video run`"):
        call("play", "run")
