"""Which config files of DI-engine compile here, after their package has another name.

    python -m tests.benchmarks.di_engine_configs DIZOO

DIZOO is the folder `dizoo` of DI-engine, installed or as its repository has it. Nothing is trained. If a file names an
environment that this project's dizoo does not have, the rest of it is compiled with CartPole instead. Files for
imitation, exploration rewards and other pipelines that ding_lite does not have are among them.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ding_lite.config import compile_config, read_pair
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.utils.registry import UserError

NO_ENVIRONMENT = "create_config.env.import_names: cannot import 'dizoo."  # the error if dizoo lacks it
OWN_KEYS = ("env_id", "kwargs", "wrappers")  # of environments, which CartPole is not to get


def compile_all(dizoo: Path) -> dict[str, tuple[str, bool]]:
    """Return what is wrong with each file, by its path below `dizoo`, and whether it has its environment here.

    Nothing is wrong with a file that compiles: the text is empty.
    """
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(dizoo.rglob("*_config.py")):
            name = path.relative_to(dizoo)
            copy = rename_package(path, Path(folder, name))
            error = find_error(copy)
            has_environment = not error.startswith(NO_ENVIRONMENT)
            told[str(name)] = (
                error if has_environment else find_error(copy, without_environment=True),
                has_environment,
            )
    return told


def rename_package(path: Path, copy: Path) -> Path:
    """Write a copy of a config file that imports `ding_lite` instead of `ding`, and return its path."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(re.sub(r"\bding\b(?=[.\s])", "ding_lite", path.read_text()))
    return copy


def with_cartpole(main: dict[str, Any], create: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config with CartPole in the place of its environment."""
    known = {key: value for key, value in main["env"].items() if key in ENV_KEYS and key not in OWN_KEYS}
    return {**main, "env": known}, {**create, "env": dict(env_id="CartPole-v1")}


def find_error(path: Path, without_environment: bool = False) -> str:
    """Return what is wrong with a config file; empty if it compiles."""
    try:
        main, create = read_pair(path)
        compile_config(with_cartpole(main, create) if without_environment else (main, create))
    except UserError as error:
        return str(error)
    return ""


def main() -> None:
    """Print the files that do not compile, and how many do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dizoo", type=Path)
    dizoo = parser.parse_args().dizoo
    if not dizoo.is_dir():
        parser.error(f"'{dizoo}' is not a folder: give the folder dizoo of DI-engine.")
    warnings.simplefilter("ignore")
    told = compile_all(dizoo)
    for name, (error, _) in told.items():
        if error:
            print(f"{name}: {error}")
    rooms = Counter(name.partition("/")[0] for name in told)
    compiling = Counter(name.partition("/")[0] for name, result in told.items() if result == ("", True))
    for room, number in rooms.items():
        print(f"{room}: {compiling[room]} of {number}")
    without = list(told.values()).count(("", False))
    print(f"{compiling.total()} of {len(told)} compile, and {without} more but for their environment")


if __name__ == "__main__":
    main()
