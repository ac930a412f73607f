"""Runs a command of the command line without its main program."""

from __future__ import annotations

import pytest

from ding_lite.cli.main import main
from ding_lite.cli.parsers import load_command, parse


def call(name: str, *words: str) -> None:
    """Parse the words as the command line does, and carry the command out."""
    command = load_command(name)
    command.run(parse(name, command, list(words)))


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line that the command line answers with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(list(words))
    if isinstance(end.value.code, str):  # python prints it and exits with 1
        lines = end.value.code.splitlines()
    else:
        assert end.value.code == 2
        lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert "Traceback" not in lines[0]
    return lines[0]
