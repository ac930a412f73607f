from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.results.helpers import write_run

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")


def test_a_directory_of_runs_becomes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        write_run(tmp_path / f"runs/{seed}", seed, [1.0, 2.0, 3.0, 4.0][: 3 + seed])
    call("plot", "runs", "--x", "seconds", "--average", "iqm", "-o", "images/new.png", "--width", "2", "--title", "Two")
    assert (tmp_path / "images/new.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr()
    assert said.out == "images/new.png\n"
    assert said.err == "note: The average of 'dqn' ends with its shortest run, '0': seconds 20 of 30.\n"
    call("plot", "runs", "--hold", "--each", "--by", "run")
    assert (tmp_path / "curves.png").exists()
