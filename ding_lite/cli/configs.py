"""The commands about configs, and about the names that a config can use."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import pkgutil
import shlex
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from easydict import EasyDict

from ding_lite.cli.parsers import COMMANDS, Command, help_line, load_command
from ding_lite.config import schema as sc
from ding_lite.results.table import fold_text
from ding_lite.utils.key import SECTION, get_key
from ding_lite.utils.printable import show
from ding_lite.utils.registry import REGISTRIES, ConfigError, load_extra

PATHS = {"FILE": "FILE", "DIR": "DIRECTORY", "PATH": "FILE"}  # placeholders of options, and what shtab completes
NARROWEST = 20  # columns of a folded summary, on a terminal that is narrower than its names
SOURCES = {"replay": "from replay", "collect": "on-policy", "dataset": "from a data set"}
# Keys that decide which other keys exist, and what must agree with them.
CHOICES = ("policy.model.type", "policy.model.encoder.type", sc.BUFFER + ".type", "policy.priority")
SHAPES = ("policy.model.obs_shape", "policy.model.action_shape")  # those of the environment


class New(Command):
    """Write a starter config for an environment and an algorithm.

    The file has the keys that matter most, each with its default and its meaning. Without an algorithm it is PPO, or
    BDQ if an action has several discrete parts. A pair that does not fit is refused, and no file is overwritten.
    --with adds a reward model, such as gail, a world model, such as mbpo, or a replay buffer, such as demonstrations.
    """

    examples = """
    ding_lite new CartPole-v1
    ding_lite new Pendulum-v1 sac
    ding_lite new Pendulum-v1 sac --with gail
    ding_lite new PongNoFrameskip-v4 dqn -o my_pong.py
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "env_id",
            metavar="ENV_ID",
            help="a gymnasium id, an Atari game such as ALE/Pong-v5, or a simulator such as brax/hopper",
        )
        parser.add_argument(
            "algorithm", metavar="ALGORITHM", nargs="?", help="a policy's name; ding_lite list policies"
        )
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="the file to write; by default ENV_ALGORITHM_config.py"
        )
        parser.add_argument(
            "--batched",
            action="store_true",
            help="all environments are one tensor; classic control as torch programs, or ids with a vector_entry_point",
        )

        parser.add_argument(
            "--with",
            dest="parts",
            metavar="NAME",
            action="append",
            default=[],
            help="a reward model, world model or replay buffer; ding_lite list shows them",
        )

    def run(self, args: argparse.Namespace) -> None:
        from ding_lite.cli.starter import write_starter  # noqa: PLC0415  (it loads torch)

        path = write_starter(args.env_id, args.algorithm, args.output, args.batched, args.parts)
        print(f"wrote {path}; train it with\n  ding_lite train -c {shlex.quote(str(path))}")


class Config(Command):
    """Print the compiled config of a file.

    With --diff, only the keys that differ from the defaults, each with its default.
    """

    takes_words = True
    examples = """
    ding_lite config dizoo/classic_control/cartpole/config/cartpole_dqn_config.py
    ding_lite config CONFIG --diff policy.learn.batch_size=16
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("config", metavar="FILE", help="python file with main_config and create_config")
        parser.add_argument("--diff", action="store_true", help="only what differs from the defaults")

    def run(self, args: argparse.Namespace) -> None:
        from ding_lite.cli.running import check_limits, split_words  # noqa: PLC0415
        from ding_lite.config import format_config, read_file  # noqa: PLC0415
        from ding_lite.run.setup import prepare_run  # noqa: PLC0415

        main, create, file_limits = read_file(args.config)
        limits, overrides = split_words(args.words)
        limits = check_limits((main, create), {**file_limits, **limits}, overrides)
        cfg = prepare_run((main, create), overrides=overrides, all_ranks=False).cfg
        if not args.diff:
            show(format_config(cfg, "", **limits).rstrip("\n"))
            return
        lines = [*_describe_changes(cfg), *(f"{name}={limit}" for name, limit in limits.items())]
        show("\n".join(lines) or "No key differs from the defaults.")


class List(Command):
    """List what a config can name: policies, models, environments.

    Policies are listed with the spaces of their actions. Environments are those of dizoo; any id that gymnasium knows
    runs without one.
    """

    examples = """
    ding_lite list
    ding_lite list policies
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        kinds = f"one of {', '.join(REGISTRIES)}; all of them by default"
        parser.add_argument("kind", nargs="?", choices=(*REGISTRIES,), metavar="KIND", help=kinds)

    def run(self, args: argparse.Namespace) -> None:
        folds = sys.stdout.isatty() or "COLUMNS" in os.environ  # any other file or pipe gets whole lines
        width = shutil.get_terminal_size().columns if folds else None
        show("\n\n".join(describe(kind, width) for kind in ([args.kind] if args.kind else (*REGISTRIES,))))


class Completion(Command):
    """Print a script for completion in bash or zsh.

    It needs the package shtab: pip install 'ding_lite[completion]'.
    """

    examples = """
    ding_lite completion bash >> ~/.bash_completion
    ding_lite completion zsh > ~/.zfunc/_ding_lite
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=("bash", "zsh"))

    def run(self, args: argparse.Namespace) -> None:
        shtab = load_extra("shtab", "completion", "Completion")
        whole = argparse.ArgumentParser("ding_lite")
        commands = whole.add_subparsers(dest="command")
        for name in COMMANDS:
            parser = commands.add_parser(name, help=help_line(name))
            load_command(name).add_arguments(parser)
            for action in parser._actions:  # argparse has no public way to list them
                if action.metavar in PATHS:
                    action.complete = getattr(shtab, PATHS[action.metavar])  # type: ignore[attr-defined]  # for shtab
        show(shtab.complete(whole, args.shell))


def describe(kind: str, width: int | None = None) -> str:
    """Return a heading, and each name of a kind with a summary.

    `kind` is a key of `REGISTRIES`. Lines longer than `width`, if any, are folded, and their continuations indented.
    """
    missing = _import_dizoo() if kind == "environments" else []
    names = sorted(REGISTRIES[kind].items())
    longest = max((len(name) for name, _ in names), default=0)
    lines = [_fold(f"  {name:<{longest}}  ", _summary(kind, cls), width) for name, cls in names]
    return "\n".join([kind, *lines, *(_fold("  ", line, width) for line in missing)])


def _fold(start: str, text: str, width: int | None) -> str:
    """Return a line, folded if it is longer than `width`; its continuations are indented further than `text`."""
    if width is None or len(start + text) <= width:
        return start + text
    indent = "\n" + " " * (len(start) + 2)
    return start + fold_text(text, max(width - len(start) - 2, NARROWEST)).replace("\n", indent)


def _summary(kind: str, cls: Any) -> str:
    if kind == "policies":
        spaces = ", ".join(space.__name__ for space in cls.action_spaces)
        return f"{'any actions' if spaces == 'Space' else spaces}; learns {SOURCES[cls.learns_from]}"
    if kind == "environments":
        return f"import_names=['{cls.__module__}']"
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _import_dizoo() -> list[str]:
    """Import dizoo's environments; return a line for each that needs a package that is not installed."""
    dizoo, missing = importlib.import_module("dizoo"), []  # user land, which this package does not depend on
    for module in pkgutil.walk_packages(dizoo.__path__, "dizoo."):
        if module.name.endswith("_env"):
            try:
                importlib.import_module(module.name)
            except (ImportError, ConfigError) as error:
                missing.append(f"{module.name}: {error}")
    return missing


def _describe_changes(cfg: EasyDict) -> Iterator[str]:
    """Yield a line for each key that differs from its default.

    Defaults are those of a config that names the same environment, policy, model, buffer and reward model, and nothing
    else.
    """
    from ding_lite.config import compile_config  # noqa: PLC0415  (so that the help is shown immediately)

    create: dict[str, Any] = {
        part: {key: cfg[part][key] for key in ("type", "import_names")} for part in sc.PARTS if part in cfg
    }
    create["env_manager"] = {"type": cfg.env.manager.type}
    chosen = {path: get_key(cfg, path) for path in CHOICES}
    overrides = [f"{path}={value}" for path, value in chosen.items() if value is not None]
    plain = compile_config(({"env": {"env_id": cfg.env.env_id}}, create), overrides=overrides)
    for path, key in sc.config_schema(cfg, sc.find_class("policy", cfg)).items():
        declared = key.default if key.default in (sc.UNSET, sc.REQUIRED) else sc.plain(key.default, path)
        default = declared if path == "policy.priority" else get_key(plain, path, declared)
        value = get_key(cfg, path, default)
        if key.type is not SECTION and path not in SHAPES and value is not sc.UNSET and value != default:
            yield f"{path}={value!r}  # default {'of the model' if default is sc.UNSET else repr(default)}"
