"""Runs a command of the command line without its main program."""

from __future__ import annotations

from ding_lite.cli.parsers import load_command, parse


def call(name: str, *words: str) -> None:
    """Parse the words as the command line does, and carry the command out."""
    command = load_command(name)
    command.run(parse(name, command, list(words)))
