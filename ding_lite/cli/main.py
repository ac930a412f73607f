"""Finds the command of a command line, parses its options and runs it.

Without a command, the words are DI-engine's options, see `Classic` in `train.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from ding_lite import __version__
from ding_lite.cli.parsers import COMMANDS, OVERRIDE, load_command, overview, parse
from ding_lite.utils.printable import show
from ding_lite.utils.ranks.interrupt import ends_at_interrupt
from ding_lite.utils.ranks.launch_environment import LOCAL_RANK, end_launcher, read_launch
from ding_lite.utils.registry import UserError, closest

RUN_BY_ALL_RANKS = ("train", "resume", "classic")  # under a launcher; rank 0 alone runs the other commands


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line. A user's mistake ends it with one line and exit status 2, Ctrl-C with one line and 130.

    `argv` are the arguments; None: those of this process.
    """
    _open_closed_streams()
    words = [word for word in (sys.argv[1:] if argv is None else argv) if not LOCAL_RANK.match(word)]
    if words[0:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    first = words[0] if words else "--help"
    if first in COMMANDS:
        _run_command(first, words[1:])
    elif first in ("-h", "--help", "help"):
        show(overview())
    elif first in ("-v", "--version"):
        print(__version__)
    elif first.startswith("-") or OVERRIDE.match(first):
        _run_command("classic", words)
    else:
        hint = f" To train a config file: ding_lite -c {first}." if first.endswith(".py") else closest(first, COMMANDS)
        sys.stderr.write(f"Unknown command '{first}'.{hint} See ding_lite --help.\n")
        raise SystemExit(2)


def _open_closed_streams() -> None:
    """Open /dev/null in place of standard streams that the caller has closed, or files would get their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  (as long as the process)


def _run_command(name: str, words: list[str]) -> None:
    with suppress(SystemExit):  # variables that describe no job
        if name not in RUN_BY_ALL_RANKS and (launch := read_launch()) and launch.rank > 0:
            return
    try:
        with ends_at_interrupt():
            command = load_command(name)
            command.run(parse(name, command, words))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        end_launcher()
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
