"""The tracker of docs/trackers.md works as printed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.docs.test_docs import ROOT, blocks, run
from tests.entry.helpers import CONFIG, SHORT, metrics


def test_a_tracker_of_ones_own_works_as_printed(tmp_path: Path) -> None:
    (tmp_path / "my_tracker.py").write_text(blocks(ROOT / "docs/trackers.md", "python")[1])
    words = ['policy.import_names=["my_tracker"]', "tracker.type=best", "max_env_step=320"]
    done = run(["-m", "ding_lite", "-c", str(CONFIG), *SHORT, *words], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tracker: run.best\n" in done.stderr
    last = [line for line in metrics(tmp_path / "run") if "eval/return_best" in line][-1]
    assert json.loads((tmp_path / "run.best").read_text()).items() <= last.items()
