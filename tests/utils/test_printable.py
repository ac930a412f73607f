"""Foreign text on terminals."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ding_lite.utils.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Größe 5 %, 日本 🙂", "Größe 5 %, 日本 🙂"),
        ("\x1b[2J\x9b31m", r"\x1b[2J\x9b31m"),  # two ways to begin a command for a terminal
        ("a\r\x08\x00\x7f", r"a\r\x08\x00\x7f"),
        ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),  # written from right to left
        ("\u2028\u200b\ufeff", r"\u2028\u200b\ufeff"),  # a line break, and what has no width
        (os.fsdecode(b"caf\xe9"), r"caf\udce9"),  # a file's name in Latin-1
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == printable_lines(text) == shown
    assert printable(shown) == shown
    shown.encode("utf-8")


def test_line_breaks_stay_only_in_text_of_several_lines() -> None:
    assert printable("a\n\tb\v") == r"a\n\tb\x0b"
    assert printable_lines("a\n\tb\v") == "a\n\tb" + r"\x0b"


def test_a_reader_that_stops_early_is_no_error() -> None:
    script = "from ding_lite.utils.printable import show\nfor _ in range(9): show('y' * 99999)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr  # noqa: PT018 (for the type checker)
        process.stdout.read(9)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
