"""The commands, their parsers, and what several of them share: options, what they print and write."""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from inspect import cleandoc, getdoc
from pathlib import Path
from typing import NoReturn

from ding_lite.utils.disk import explaining
from ding_lite.utils.printable import printable_lines
from ding_lite.utils.registry import ConfigError, closest

COMMANDS = {  # the module of each in this package, in the order of the help
    "new": "configs",
    **dict.fromkeys(("train", "sweep", "resume"), "train"),
    **dict.fromkeys(("eval", "play", "video", "export", "convert"), "trained"),
    **dict.fromkeys(("runs", "plot", "compare", "report", "clean"), "results"),
    **dict.fromkeys(("list", "config", "completion"), "configs"),
}
WIDEST = 120  # characters of a line of help
TIED = "\N{NO-BREAK SPACE}"  # a space at which an example is not broken
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
        examples: command lines for the end of its help.
        takes_words: whether it takes words `key=value`.
    """

    examples: str
    takes_words = False

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
        description="\n\n".join(_fold(part, width) for part in (getdoc(command) or "").split("\n\n")),
        epilog="\n".join(["examples:", *(_fold_example(line, width) for line in examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    if command.takes_words:
        usage, more = parser.format_usage().rstrip(), " [key=value ...]"
        fits = len(usage.splitlines()[-1] + more) <= width
        parser.usage = usage.removeprefix("usage: ") + (more if fits else f"\n{' ' * len(f'usage: {prog}')}{more}")
    return parser


def _width() -> int:
    """Return the characters of a line of help; argparse leaves two columns free too."""
    return min(shutil.get_terminal_size().columns - 2, WIDEST)


def _fold(text: str, width: int, indent: str = "") -> str:
    """Return a paragraph in lines of at most `width` characters, if no word is longer."""
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _fold_example(line: str, width: int) -> str:
    """Return an example, indented; a long one is continued as a shell takes it, between options."""
    tied = re.sub(r'(?:--?\w[\w-]* )?"[^"]*"|--?\w[\w-]* [^-\s]\S*', lambda part: part[0].replace(" ", TIED), line)
    return _fold(f"  {tied}", width - len(" \\"), " " * 6).replace("\n", " \\\n").replace(TIED, " ")


def parse(name: str, command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; its words `key=value` are in `words`."""
    takes, parser = command.takes_words, create_parser(name, command)
    # Overrides are taken out first, because `-s 0 1 key=value` would take them.
    overrides = [word for word in words if takes and OVERRIDE.match(word)]
    options = [option for action in parser._actions for option in action.option_strings]
    for word in words:
        if ONE_DASH.fullmatch(word) and f"-{word}" in options:  # argparse would take -seed for -s eed
            parser.error(f"unrecognized arguments: {word}. Did you mean '-{word}'?")
    args, unknown = parser.parse_known_intermixed_args([word for word in words if word not in overrides])
    if unknown:
        options += ("max_env_step=", "max_train_iter=", "max_seconds=") if takes else ()
        hint = closest(unknown[0], options) if unknown[0].startswith("--") else ""
        if takes and not unknown[0].startswith("-"):
            hint = " A key of the config is changed by key=value, without spaces"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{'.' * bool(hint)}{hint}")
    args.words = overrides
    return args


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


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options about the processes of a new run."""
    parser.add_argument(
        "--divide",
        action="store_true",
        help="the processes share batch, samples, environments and replay buffer of the config, so that any number "
        "takes the same learning steps: the same as policy.divide=True",
    )
    add_processes(parser)


def add_seeds(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Declare the seeds of runs, as `-s 0 1` or, like DI-engine, as `-s 0 -s 1`."""
    parser.add_argument(
        *("-s", "--seeds", "--seed"), type=int, nargs="+", action="extend", metavar="SEED", help=meaning, dest="seeds"
    )


def add_jobs(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare how many runs there are at a time."""
    help_text = f"runs side by side, if there are several {what} (default: 1; with --submit, all)"
    parser.add_argument("--jobs", type=int, metavar="J", help=help_text)


def add_together(parser: argparse.ArgumentParser) -> None:
    """Declare that several runs are trained in step."""
    parser.add_argument(
        "--together",
        action="store_true",
        help="train all runs in step in the same processes, their networks computed at once; needs the extra together",
    )


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Declare the options about the processes of any run."""
    parser.add_argument("--nproc", type=int, default=1, metavar="N", help="processes that train together")
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="K", help="after a failure, restart at most K times and resume"
    )
    parser.add_argument(
        "--submit",
        choices=("slurm", "local"),
        help="run each seed or trial as a job of a cluster; the words submit.KEY=VALUE are its options, such as "
        "submit.slurm_partition=gpu; local: jobs on this machine, to try it",
    )
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)  # some launchers pass it


def check_run_options(args: argparse.Namespace) -> None:
    """Check the options of `add_run_options` and seeds, and separate the options of a cluster from the other words."""
    args.cluster_words = [word for word in args.words if word.startswith("submit.")]
    args.words = [word for word in args.words if word not in args.cluster_words]
    if args.cluster_words and not args.submit:
        raise ConfigError(f"{args.cluster_words[0]} is an option of a cluster: add --submit slurm, or leave it out.")
    if args.nproc < 1 or args.max_restarts < 0:
        raise ConfigError(f"expected --nproc >= 1 and --max-restarts >= 0, got {args.nproc} and {args.max_restarts}.")
    seeds = getattr(args, "seeds", None) or []
    for seed in (seed for index, seed in enumerate(seeds) if seed in seeds[:index]):
        raise ConfigError(f"-s: seed {seed} is given twice, and both runs would be the same: leave one out.")


def check_at_least(args: argparse.Namespace, **lowest: int) -> None:
    """Check that options are at least as large as these numbers, if they are given."""
    for name, least in lowest.items():
        value = getattr(args, name)
        if value is not None and value < least:
            raise ConfigError(f"expected --{name.replace('_', '-')} >= {least}, got {value}.")


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Declare the checkpoint to play with."""
    parser.add_argument(
        "path", metavar="PATH", help="a run's directory, whose best checkpoint is meant, or a checkpoint"
    )


def add_playing(parser: argparse.ArgumentParser) -> None:
    """Declare the checkpoint to play with, and how it plays."""
    add_checkpoint(parser)
    parser.add_argument("-s", "--seed", type=int, default=0, help="seed of the environment (default: 0)")
    parser.add_argument("--explore", action="store_true", help="act as in training, not greedily")


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Declare the runs to read."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="directory of a run, or one that contains runs")


def show_notes(notes: Iterable[str]) -> None:
    """Print notes to stderr, where they do not disturb what is redirected."""
    for note in notes:
        print(printable_lines(f"note: {note}"), file=sys.stderr)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, and its directory if needed."""
    with explaining(f"Cannot write '{path}'"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
