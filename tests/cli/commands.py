"""Runs a command of the command line without its main program."""

from __future__ import annotations

from types import ModuleType

from ding_lite.cli.parsers import parse


def call(command: ModuleType, *words: str) -> None:
    """Parse the words as the command line does, and carry the command out."""
    command.run(parse(command.__name__.rpartition(".")[2], command, list(words)))
