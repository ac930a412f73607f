"""Passwords of services and databases: where they come from, and how they stay out of configs, logs and messages.

A config is saved with its run, and the command line is visible to all users of a machine. A password is therefore no
part of either. `${NAME}` stands for it, and is replaced by the environment variable NAME where it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import dotted_items

VARIABLE = re.compile(r"\$\{(\w+)\}")
SECRET = r"(?:password|passwd|pwd|secret|token|api_?key)"
KEY = re.compile(f"(?:^|[._]){SECRET}$", re.IGNORECASE)  # key of an option, or a variable, that is a password
USER = re.compile(r"://(?!/)[^\s'\"]*@")  # whatever is before the host of a URL
PASSWORD = re.compile(r"://[^\s/:@]*:(?!\d+/)[^\s@]+@")
TOKEN = re.compile(r"https?://[^\s/:@]+@", re.IGNORECASE)  # web servers accept a token in place of a user
QUERY = re.compile(rf"([?&;]{SECRET}=)[^\s&;'\"]+", re.IGNORECASE)
SHORTEST = 6  # characters of a password that is looked for; a shorter one may be part of any word
_filled_in: set[str] = set()  # values of the variables that options named


def hide_passwords(text: str) -> str:
    """Return text in which dots replace the user and the passwords of each URL, and every password that is known.

    Known are the variables that `fill_in` has read, and those whose names say so, such as WANDB_API_KEY.
    """
    known = _filled_in | {value for name, value in os.environ.items() if KEY.search(name)}
    for value in sorted(known, key=len, reverse=True):  # one may contain another
        text = text.replace(value, "...") if len(value) >= SHORTEST else text
    return USER.sub("://...@", QUERY.sub(r"\1...", text))


def check_no_passwords(options: Mapping[str, Any], path: str) -> None:
    """Check that none of the nested options, whose key is `path`, is or contains a password; `${NAME}` is none."""
    for key, value in dotted_items(options):
        text = "" if value is None or isinstance(value, bool) else VARIABLE.sub("", str(value))
        found = any(pattern.search(text) for pattern in (PASSWORD, TOKEN, QUERY))
        if found or (text and KEY.search(key)):
            raise ConfigError(
                f"{path}.{key} contains a password or token, which would be saved with the config: write ${{NAME}} in "
                "its place, in quotes on the command line, and set the environment variable NAME."
            )


def fill_in(value: Any) -> Any:
    """Return nested options, or one, with environment variables in the places of `${NAME}`."""
    if isinstance(value, Mapping):
        return {key: fill_in(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill_in(item) for item in value]
    if not isinstance(value, str):
        return value
    missing = [name for name in VARIABLE.findall(value) if name not in os.environ]
    if missing:
        raise ConfigError(f"'{hide_passwords(value)}': the environment variable {missing[0]} is not set.")
    _filled_in.update(os.environ[name] for name in VARIABLE.findall(value))
    return VARIABLE.sub(lambda match: os.environ[match[1]], value)
