from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.results.helpers import write_run


@pytest.mark.parametrize(("columns", "lines"), [(60, 2), (80, 2), (100, 1)])
def test_runs_are_listed_within_the_terminal_and_names_can_be_copied(
    columns: int, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    write_run(tmp_path / "some/cartpole_dqn_seed0_with_a_long_name", ending="max_env_step")
    write_run(tmp_path / "some/killed", ending=None)
    call("runs", "some")
    *said, total = capsys.readouterr().out.splitlines()
    assert max(map(len, said)) <= columns
    rows = [" ".join(said[begin : begin + lines]).split() for begin in range(0, len(said), lines)]
    assert [row[:6] for row in rows] == [
        ["run", "policy", "env", "ended", "best", "env"],
        ["cartpole_dqn_seed0_with_a_long_name", "dqn", "CartPole-v0", "max_env_step", "190", "200"],
        ["killed", "dqn", "CartPole-v0", "killed", "190", "200"],
    ]
    assert total.startswith("2 runs, ")
