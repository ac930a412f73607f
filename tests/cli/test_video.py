"""`video PATH` records whole episodes, without a screen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ding_lite.utils.registry import ConfigError
from tests.cli.commands import call
from tests.distributed.launcher import run_forked

pytestmark = pytest.mark.usefixtures("run_directory")


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
    absent = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR")  # pygame misses the last one
    for name in absent:
        monkeypatch.delenv(name, raising=False)
    done = run_forked(["-m", "ding_lite", *words], 300)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


def test_a_missing_moviepy_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(ConfigError, match="the extra 'video'"):
        call("video", "run")
    assert not Path("run/video").exists()
