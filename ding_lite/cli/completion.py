"""Print a script for completion in bash or zsh.

It needs the package shtab: pip install 'ding_lite[completion]'.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ding_lite.cli.output import show
from ding_lite.cli.parsers import create_whole_parser
from ding_lite.utils.registry import UserError

USAGE = "{bash,zsh}"
EXAMPLES = """
ding_lite completion bash >> ~/.bash_completion
ding_lite completion zsh > ~/.zfunc/_ding_lite
"""

PATHS = {"FILE": "FILE", "DIR": "DIRECTORY", "PATH": "FILE"}  # placeholders of options, and what shtab completes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=("bash", "zsh"))


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    try:
        import shtab  # noqa: PLC0415  (an optional package)
    except ImportError:
        raise UserError("Completion needs the package shtab: pip install 'ding_lite[completion]'.") from None
    parser = create_whole_parser()
    for action in _options(parser):
        if action.metavar in PATHS:
            action.complete = getattr(shtab, PATHS[action.metavar])  # type: ignore[attr-defined]  # shtab reads it
    show(shtab.complete(parser, args.shell))


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options of a parser and of its commands."""
    for action in parser._actions:  # argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)
        else:
            yield action
