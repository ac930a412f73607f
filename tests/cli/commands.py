"""Runs a command of the command line without its main program."""

from __future__ import annotations

import argparse
from types import ModuleType


def call(command: ModuleType, *words: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args(words))
