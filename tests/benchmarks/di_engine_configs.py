"""Which config files of DI-engine compile here, after their package has another name.

    python -m tests.benchmarks.di_engine_configs DIZOO

DIZOO is the folder `dizoo` of an installed DI-engine. Its Atari, classic control, Box2D, MuJoCo and MiniGrid files are
read; nothing is trained. Files for imitation, exploration rewards and other pipelines that ding_lite does not have are
among them.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from pathlib import Path

from ding_lite.config import compile_config
from ding_lite.utils.registry import UserError

ROOMS = ("atari", "classic_control", "box2d", "mujoco", "minigrid")


def compile_all(dizoo: Path) -> dict[str, str]:
    """Return an empty string for each file that compiles, else what is wrong, by the file's path below `dizoo`."""
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(path for room in ROOMS for path in (dizoo / room).rglob("*_config.py")):
            name = path.relative_to(dizoo)
            copy = Path(folder, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(re.sub(r"\bding\b(?=[.\s])", "ding_lite", path.read_text()))
            try:
                compile_config(copy)
                told[str(name)] = ""
            except UserError as error:
                told[str(name)] = str(error)
    return told


def main() -> None:
    """Print the files that do not compile, and how many do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dizoo", type=Path)
    dizoo = parser.parse_args().dizoo
    if not dizoo.is_dir():
        parser.error(f"'{dizoo}' is not a folder: give the folder dizoo of DI-engine.")
    warnings.simplefilter("ignore")
    told = compile_all(dizoo)
    for name, error in told.items():
        if error:
            print(f"{name}: {error}")
    print(f"{list(told.values()).count('')} of {len(told)} compile")


if __name__ == "__main__":
    main()
