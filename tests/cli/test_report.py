from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.results.helpers import write_run

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")


def test_a_report_is_written_with_the_options_of_plot_and_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        write_run(tmp_path / f"runs/{seed}", seed)
    call("report", "runs", "--threshold", "50", "--x", "iteration", "-o", "new/page.html")
    text = (tmp_path / "new/page.html").read_text()
    assert "<title>Runs in runs</title>" in text
    assert "reached 50" in text
    assert capsys.readouterr().out == "new/page.html\n"
    call("report", "runs", "--title", "Seeds")
    assert "<title>Seeds</title>" in (tmp_path / "report.html").read_text()
