"""Print the compiled config of a file.

With --diff, only the keys that differ from the defaults, each with its default.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.output import show

USAGE = "FILE [--diff] [key=value ...]"
EXAMPLES = """
ding_lite config dizoo/classic_control/cartpole/config/cartpole_dqn_config.py
ding_lite config CONFIG --diff policy.learn.batch_size=16
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("config", metavar="FILE", help="python file with main_config and create_config")
    parser.add_argument("--diff", action="store_true", help="only what differs from the defaults")


def run(args: argparse.Namespace) -> None:
    """Carry the command out."""
    from ding_lite.cli.differences import changed_keys  # noqa: PLC0415  (it loads torch)
    from ding_lite.cli.running import check_limits, split_words  # noqa: PLC0415
    from ding_lite.config import format_config, read_limits  # noqa: PLC0415
    from ding_lite.config.schema import UNSET  # noqa: PLC0415
    from ding_lite.entry.setup import prepare_run  # noqa: PLC0415

    limits, overrides = split_words(args.words)
    limits = check_limits(args.config, {**read_limits(args.config), **limits}, overrides)
    cfg = prepare_run(args.config, overrides=overrides, all_ranks=False).cfg
    if args.diff:
        lines = [
            f"{path}={value!r}  # default {'of the model' if default is UNSET else repr(default)}"
            for path, (default, value) in changed_keys(cfg).items()
        ]
        lines += [f"{name}={limit}" for name, limit in limits.items()]
        show("\n".join(lines) or "No key differs from the defaults.")
    else:
        show(format_config(cfg, "", **limits).rstrip("\n"))
