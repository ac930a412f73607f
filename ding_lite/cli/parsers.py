"""The commands and their parsers."""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import textwrap
from collections.abc import Sequence
from inspect import cleandoc, getdoc
from typing import NoReturn

from ding_lite.utils.registry import closest

COMMANDS = {  # the module of each in this package, in the order of the help
    "new": "configs",
    "train": "train",
    "sweep": "sweep",
    "resume": "train",
    **dict.fromkeys(("eval", "play", "video", "export"), "trained"),
    **dict.fromkeys(("runs", "plot", "compare", "report", "clean"), "results"),
    **dict.fromkeys(("list", "config", "completion"), "configs"),
}
WIDEST = 120  # characters of a line of help
TIED = "\N{NO-BREAK SPACE}"  # a space at which a usage is not broken
ONE_DASH = re.compile(r"-\w[\w-]+")  # a long option whose name begins with one dash
OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")  # how a word that changes a config key begins


class Parser(argparse.ArgumentParser):
    """argparse's parser; an error prints one line, without the usage, and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith("?") else "."
        self.exit(2, f"{self.prog}: {message}{end} See {self.prog} --help.\n")


class Command:
    """A command. The first line of its docstring is its help in the overview, the whole docstring that of `--help`.

    Attributes:
        usage: what follows the command's name in its usage; without `key=value`, it takes no such words.
        examples: command lines for the end of its help.
    """

    usage: str
    examples: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        raise NotImplementedError

    def run(self, args: argparse.Namespace) -> None:
        """Carry the command out. `args.words` are the words `key=value`."""
        raise NotImplementedError


def load_command(name: str) -> Command:
    """Return a command; `classic` is the one whose options are given without a command."""
    module = importlib.import_module(f"ding_lite.cli.{COMMANDS.get(name, 'train')}")
    return getattr(module, name.title())()


def create_parser(name: str, command: Command) -> argparse.ArgumentParser:
    """Return the parser of a command's options."""
    prog = "ding_lite" if name == "classic" else f"ding_lite {name}"
    width, examples = _width(), cleandoc(command.examples).splitlines()
    parser = Parser(
        prog,
        usage=_fold_usage(f"{prog} {command.usage}", width),
        description="\n\n".join(_fold(part, width) for part in (getdoc(command) or "").split("\n\n")),
        epilog="\n".join(["examples:", *(_fold_example(line, width) for line in examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def _width() -> int:
    """Return the characters of a line of help; argparse leaves two columns free too."""
    return min(shutil.get_terminal_size().columns - 2, WIDEST)


def _fold(text: str, width: int, indent: str = "") -> str:
    """Return a paragraph in lines of at most `width` characters, if no word is longer."""
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _fold_usage(usage: str, width: int) -> str:
    """Return a usage whose lines are broken between options, not inside brackets or after a short option's name."""
    tied = re.sub(r"\[(?:[^][]|\[[^]]*\])*\]|-\w [A-Z]\S*", lambda part: part[0].replace(" ", TIED), usage)
    indent = " " * len("usage: ")
    lines = [_fold(indent + line.strip(), width, indent + "  ").strip() for line in tied.splitlines()]
    return f"\n{indent}".join(lines).replace(TIED, " ")


def _fold_example(line: str, width: int) -> str:
    """Return an example, indented; a long one is continued as a shell takes it, between options."""
    tied = re.sub(r'(?:--?\w[\w-]* )?"[^"]*"|--?\w[\w-]* [^-\s]\S*', lambda part: part[0].replace(" ", TIED), line)
    return _fold(f"  {tied}", width - len(" \\"), " " * 6).replace("\n", " \\\n").replace(TIED, " ")


def parse(name: str, command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; its words `key=value` are in `words`."""
    takes = "key=value" in command.usage
    # Overrides are taken out first, because `-s 0 1 key=value` would take them.
    overrides = [word for word in words if takes and OVERRIDE.match(word)]
    parser = create_parser(name, command)
    options = [option for action in parser._actions for option in action.option_strings]
    for word in words:
        if ONE_DASH.fullmatch(word) and f"-{word}" in options:  # argparse would take -seed for -s eed
            parser.error(f"unrecognized arguments: {word}. Did you mean '-{word}'?")
    args, unknown = parser.parse_known_intermixed_args([word for word in words if word not in overrides])
    if unknown:
        hint = closest(unknown[0], options) if unknown[0].startswith("--") else ""
        if takes and not unknown[0].startswith("-"):
            hint = " A key of the config is changed by key=value, without spaces"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{'.' * bool(hint)}{hint}")
    args.words = [*getattr(args, "words", []), *overrides]
    return args


def create_whole_parser() -> argparse.ArgumentParser:
    """Return a parser of all commands, from which a shell's completion is made."""
    whole = argparse.ArgumentParser("ding_lite")
    commands = whole.add_subparsers(dest="command")
    for name in COMMANDS:
        command = load_command(name)
        command.add_arguments(commands.add_parser(name, help=help_line(name)))
    return whole


def overview() -> str:
    """Return the help of the whole command line: a line for each command."""
    width = _width()
    lines = [_fold(f"  {name:<11} {help_line(name)}", width, " " * 14) for name in COMMANDS]
    end = "ding_lite COMMAND --help lists the options of a command. Without a command, the options are those of "
    end += "DI-engine: ding_lite -m serial -c FILE -s 0."
    what = _fold("Config-driven reinforcement learning, on one process or many.", width)
    return "\n".join(["usage: ding_lite COMMAND ...", "", what, "", *lines, "", _fold(end, width)])


def help_line(name: str) -> str:
    """Return the first line of a command's docstring, without its full stop."""
    return (getdoc(load_command(name)) or "").splitlines()[0].rstrip(".")
