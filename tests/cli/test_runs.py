from __future__ import annotations

from pathlib import Path

import pytest

from ding_lite.cli import runs
from ding_lite.utils.registry import UserError
from tests.cli.commands import call
from tests.results.helpers import write_run


@pytest.mark.parametrize("columns", [60, 80])
def test_runs_are_listed_within_the_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    write_run(tmp_path / "some/cartpole_dqn_seed0_with_a_long_name", ending="stop_value")
    write_run(tmp_path / "some/killed", ending=None)
    call(runs, "some")
    said = capsys.readouterr().out.splitlines()
    assert max(map(len, said)) <= columns
    assert said[0].split()[:5] == ["run", "policy", "env", "ended", "best"]
    assert said[-2].split()[:6] == ["killed", "dqn", "CartPole-v0", "killed", "190", "200"]
    assert said[-1].startswith("2 runs, ")


def test_a_directory_without_runs_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(runs)
    assert capsys.readouterr().out == "0 runs, 0.0 kB\n"
    with pytest.raises(UserError, match="'none' does not exist or is not a directory"):
        call(runs, "none")
