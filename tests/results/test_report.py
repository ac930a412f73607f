"""The report contains everything, and fits a phone and a desktop; a browser measures it if there is one."""

from __future__ import annotations

import base64
import html.parser
import os
import re
from pathlib import Path

import pytest

from ding_lite.results import report
from ding_lite.results.compare import compare_groups
from ding_lite.results.groups import group_runs
from ding_lite.results.plot import PlotOptions
from ding_lite.results.report import find_videos, render_report
from ding_lite.results.run import find_runs, read_run
from tests.results.helpers import write_run

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
VOID = {"meta", "img", "br"}
PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")  # a GIF


class Page(html.parser.HTMLParser):
    """Collects the sources that a page loads and its text; fails on a tag that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for key, value in attrs if key in ("src", "href")]
        self._open += [tag] if tag not in VOID else []

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def write_report(folder: Path) -> str:
    """Return a report of two groups, one with a video, one with a name that is no HTML."""
    for seed in range(2):
        write_run(folder / f"one{seed}", seed)
    write_run(folder / "a<b>&c", 0, [10.0, 20.0, 30.0], "policy.nstep=3", "env.max_episode_steps=150")
    (folder / "one0/video").mkdir()
    (folder / "one0/video/play.gif").write_bytes(PIXEL)
    groups = group_runs(find_runs([folder]))
    return render_report(groups, compare_groups(groups), PlotOptions(), "CartPole <1>")


def test_a_report_is_one_file_with_curves_tables_configs_and_videos(tmp_path: Path) -> None:
    text = write_report(tmp_path)
    page = Page(text)
    assert [source.partition(";")[0] for source in page.sources] == ["data:image/svg+xml", "data:image/gif"]
    assert base64.b64decode(page.sources[1].partition(",")[2]) == PIXEL
    assert not re.search(r"https?://|@import|url\(", text)
    assert {"CartPole <1>", "3 runs in 2 groups, on CartPole-v0.", "a<b>&c", "policy.nstep", "one0: play.gif"} <= set(
        page.words
    )
    assert any("policy.learn.batch_size = 64" in words for words in page.words)
    assert '<td class="right" data-label="runs">2</td>' in text


def test_the_newest_videos_are_chosen_and_large_ones_only_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run")
    (run / "video").mkdir()
    for number, name in enumerate(("b.mp4", "a.webm", "c.txt")):
        (run / "video" / name).write_bytes(bytes(10))
        os.utime(run / "video" / name, (1000 + number, 1000 + number))
    assert [path.name for path in find_videos(read_run(run), 5)] == ["a.webm", "b.mp4"]
    if os.geteuid() == 0:  # only root can give a link to another user
        (run / "video/secret.mp4").symlink_to(tmp_path / "secret")
        (tmp_path / "secret").touch()
        os.lchown(run / "video/secret.mp4", 65534, 65534)
        assert find_videos(read_run(run), 5) == []
        (run / "video/secret.mp4").unlink()
    assert [path.name for path in find_videos(read_run(run), 1)] == ["a.webm"]
    video = find_videos(read_run(run), 1)[0]
    assert "data:video/webm;base64,AAAA" in report._video(read_run(run), video)
    monkeypatch.setattr(report, "LARGEST_VIDEO", 9)
    assert "stays in" in report._video(read_run(run), video)


def test_an_environment_without_the_figure_gets_a_note(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    groups = group_runs(find_runs([tmp_path]))
    text = render_report(groups, compare_groups(groups), PlotOptions(("train/total_loss",)), "x")
    assert "Nothing to draw has been recorded yet." in text
