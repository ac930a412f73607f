"""Write docs/dizoo.md, the list of dizoo's config files, from what the files say: python docs/make_dizoo_list.py."""

from __future__ import annotations

import ast
import re
from itertools import groupby
from pathlib import Path

from ding_lite.config import read_config

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/dizoo.md"
INTRO = """# The configs of dizoo

Written by `make docs` from the files and their docstrings: edit those, not this page.

A file defines a `main_config` and a `create_config`. It can be run, changed on the command line, and imported:

```sh
python dizoo/classic_control/cartpole/config/cartpole_dqn_config.py
ding_lite train -c dizoo/classic_control/cartpole/config/cartpole_dqn_config.py env.env_id=CartPole-v1
```

```python
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config
```

The paths are those of DI-engine where it has such a file. A file that differs little from another one copies its pair
and sets what differs. Some docstrings say how their file plays another game. Several processes share a file's sizes
with `--nproc 2 --divide` ([quickstart](quickstart.md)). `ding_lite config FILE --diff` prints what differs from the
defaults. [Environments](environments.md#what-dizoo-has) lists the extras that are needed, and
[Algorithms](algorithms/README.md) the policies.
"""


def make_page() -> str:
    """Return the text of docs/dizoo.md."""
    page = INTRO
    for folder, paths in groupby(sorted((ROOT / "dizoo").rglob("*_config.py")), _folder):
        page += f"\n## `{folder}`\n\n| environment | policy | file | result |\n|---|---|---|---|\n"
        page += "".join(_row(path) for path in paths)
    return page


def read_result(docstring: str) -> str:
    """Return what the docstring of a config file says of its result, in its last words."""
    text = " ".join(docstring.split())
    _, found, result = text.partition("Result: ")
    return result if found else re.split(r"(?<=\.) (?=[A-Z])", text)[-1]


def _row(path: Path) -> str:
    main_config, create_config = read_config(path)
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    env = f"`{main_config['env']['env_id']}`"
    if "unless `env.env_id` names another one" in docstring:
        env = "any game"
    name = path.relative_to(ROOT).as_posix()
    return f"| {env} | `{create_config['policy']['type']}` | [`{name}`](../{name}) | {read_result(docstring)} |\n"


def _folder(path: Path) -> str:
    return re.split("/config/|/[^/]+$", path.relative_to(ROOT).as_posix())[0]


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
