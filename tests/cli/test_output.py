from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ding_lite.cli.parsers import show_notes, write_file
from ding_lite.utils.registry import UserError


def test_a_reader_that_ends_early_is_no_mistake() -> None:
    code = "from ding_lite.cli.parsers import show; show('x\\n' * 100_000); show('more')"
    words = shlex.join([sys.executable, "-c", code])
    done = subprocess.run(f"{words} | head -1", shell=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("x\n", "")


def test_notes_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show_notes(["one", "two"])
    assert tuple(capsys.readouterr()) == ("", "note: one\nnote: two\n")


def test_a_file_is_written_with_its_directory_or_the_reason_is_said(tmp_path: Path) -> None:
    write_file(tmp_path / "a/b", "text")
    assert (tmp_path / "a/b").read_text() == "text"
    with pytest.raises(UserError, match=r"Cannot write .*: Is a directory"):
        write_file(tmp_path / "a", "text")
