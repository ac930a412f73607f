"""A password is never part of a config or of a message; `${NAME}` stands for it."""

from __future__ import annotations

from typing import Any

import pytest

from ding_lite.config import compile_config
from ding_lite.utils.passwords import fill_in, hide_passwords
from ding_lite.utils.registry import ConfigError
from tests.config.helpers import CARTPOLE

SECRET = "s3cr/t@x"
WITH = [
    f"tracker.options.tracking_uri=postgresql://me:{SECRET}@host:5432/runs",
    f"tracker.options.tracking_uri=http://:{SECRET}@host",
    f"tracker.options.tracking_uri=postgresql://host/runs?user=me&password={SECRET}",
    f"tracker.options.settings={{'api_key': '{SECRET}'}}",
    f"tracker.options.hosts=['http://host', 'http://me:{SECRET}@host']",
    f"tracker.project=http://me:{SECRET}@host",
    "tracker.options.tracking_uri=https://s3cr@host/runs",
    "tracker.options.settings={'password': 1234}",
]
WITHOUT = [
    "tracker.options.tracking_uri=postgresql://me:${PW}@host/runs?password=${PW}",
    "tracker.options.tracking_uri=http://127.0.0.1:5000/a@b",
    "tracker.options.tracking_uri=sqlite:////home/me@work/runs:1@2.db",
    "tracker.options.tracking_uri=https://me:${PW}@host",
    "tracker.options.tracking_uri=https://${PW}@host",
    "tracker.options.tracking_uri=ssh://me@host",
    "tracker.options.port=1234",
    "tracker.options.settings={'api_key': '${PW}', 'token': None, 'tokens': 'all'}",
]


@pytest.mark.parametrize("word", WITH)
def test_a_password_in_a_config_is_refused_and_not_shown(word: str) -> None:
    with pytest.raises(ConfigError, match=r"tracker\.\w.* contains a password or token, .* write \$\{NAME\}") as error:
        compile_config(CARTPOLE, overrides=[word])
    assert not any(secret in str(error.value) for secret in (SECRET, "s3cr", "1234"))


@pytest.mark.parametrize("word", WITHOUT)
def test_anything_else_may_be_an_option(word: str) -> None:
    assert compile_config(CARTPOLE, overrides=["tracker.type=mlflow", word]).tracker.options


def test_variables_are_filled_in_at_any_depth_and_a_missing_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", SECRET)
    options: dict[str, Any] = {"uri": "http://me:${PW}@h", "more": {"key": ["${PW}", 3, None]}, "price": "$5 ${"}
    filled = fill_in(options)
    assert filled == {"uri": f"http://me:{SECRET}@h", "more": {"key": [SECRET, 3, None]}, "price": "$5 ${"}
    assert options["uri"] == "http://me:${PW}@h"
    monkeypatch.delenv("PW")
    with pytest.raises(ConfigError, match="the environment variable PW is not set"):
        fill_in(options)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (
            f"no 'postgresql+psycopg2://me:{SECRET}@host:5432/db' here",
            "no 'postgresql+psycopg2://...@host:5432/db' here",
        ),
        (f"(http://me:{SECRET}@host/?token={SECRET}&a=1)", "(http://...@host/?token=...&a=1)"),
        (
            "sqlite:////home/me@work/runs.db and http://host:5000/",
            "sqlite:////home/me@work/runs.db and http://host:5000/",
        ),
        ("me@home said: 5 @ 3", "me@home said: 5 @ 3"),
    ],
)
def test_messages_show_where_a_url_leads_and_no_password(text: str, hidden: str) -> None:
    assert hide_passwords(text) == hidden


def test_a_password_that_is_known_is_hidden_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789")
    monkeypatch.setenv("PHRASE", "correct horse")
    monkeypatch.setenv("DB_PASSWORD", "on")  # too short: it is part of many words
    fill_in(["${PHRASE}"])
    assert hide_passwords("login 0123456789, correct horse; not configured") == "login ..., ...; not configured"
