"""What a trained policy does: `eval`, `play` and `video`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ding_lite.utils.registry import ConfigError
from tests.cli.commands import call
from tests.distributed.launcher import run_forked

pytestmark = pytest.mark.usefixtures("run_directory")
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR")  # pygame misses the last one


def test_a_run_or_a_checkpoint_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    call("eval", "run", "env.max_episode_steps=5", "--episodes", "3", "-s", "1")
    call("eval", "run/ckpt/ckpt_last.pth.tar", "env.max_episode_steps=4")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("return 5.00 +- 0.00")
    assert first.endswith("over 3 episodes")
    assert second.startswith("return 4.00 +- 0.00")


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


def test_videos_lie_in_the_run_and_are_named_by_their_return(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("moviepy")
    call("video", "run", "--episodes", "2")
    call("video", "run", "--format", "gif", "-o", "films")
    lines = capsys.readouterr().out.splitlines()
    files = sorted(Path("run/video").iterdir()) + sorted(Path("films").iterdir())
    assert [path.suffix for path in files] == [".mp4", ".mp4", ".gif"]
    assert all(path.stat().st_size > 1000 for path in files)
    for line, path, number in zip(lines, files, (1, 2, 1), strict=True):
        value = line.partition(",")[0].removeprefix("return ")  # CartPole's reward is 1: the length of the episode
        assert line == f"return {value}, {float(value):.0f} steps: {path}"
        assert path.stem == f"episode_{number:04d}_return_{value}"


@pytest.mark.parametrize("words", [["video", "run"], ["eval", "run", "env.replay_path=films", "--episodes", "1"]])
def test_without_a_screen_nothing_is_printed_but_the_result(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moviepy")
    for name in SCREENS:
        monkeypatch.delenv(name, raising=False)
    done = run_forked(["-m", "ding_lite", *words], 300, status=None)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


def test_a_missing_moviepy_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(ConfigError, match="the extra 'video'"):
        call("video", "run")
    assert not Path("run/video").exists()
