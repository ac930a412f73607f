"""The code of docs/agent.md, run as it stands there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.docs.test_docs import ROOT, blocks
from tests.entry.helpers import run


def test_the_page_acts_exports_and_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    threads = torch.get_num_threads()
    run("exp_name=small")
    capsys.readouterr()
    act, export, measure = blocks(ROOT / "docs" / "agent.md", "python")
    names = {"torch": torch}
    exec(act, names)
    assert 0 < float(capsys.readouterr().out) <= 200  # CartPole-v0 ends after 200 steps, each worth 1
    exec(export, names)
    assert names["actions"].shape == (3,)
    exec(measure.replace("1000", "3"), names)
    assert float(capsys.readouterr().out) > 0
    torch.set_num_threads(threads)
