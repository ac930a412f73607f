"""Runs a command as the command line does."""

from __future__ import annotations

import argparse
from typing import Any


def call(command: Any, *words: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.EXAMPLES
    assert command.__doc__
    command.run(parser.parse_intermixed_args(words))
