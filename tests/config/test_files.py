"""Config files: read, and written so that they run again."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config, read_config, save_config, set_shapes
from ding_lite.envs.vector_env import check_env
from ding_lite.utils.registry import ConfigError
from tests.config.helpers import CARTPOLE, PONG, pair


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (\n", r"line 2: SyntaxError: '\(' was never closed"),
        ("x = 1\n\nraise KeyError('boom')\n", r"line 3: KeyError: 'boom'"),
        ("def f():\n    return 1 / 0\n\nf()\n", r"line 2: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", r"line 2: SystemExit: 3"),
        ("import no_such_module\n", r"line 1: ModuleNotFoundError"),
        ("create_config = {}\n", r"called 'main_config', got none\. Add main_config = dict\(exp_name='my_run'\)\.$"),
        ("main_config = {}\n", r"called 'create_config', got none\. Add create_config = dict\(policy=.*\)\.$"),
        ("main_config = {}\ncreate_confg = {}\n", "called 'create_config', got none. Did you mean 'create_confg'"),
        ("main_config = 3\ncreate_config = {}\n", "expected a dict called 'main_config'"),
        ("\x00", r"line 1: "),
        ("  main_config: {}\n -", r"line \d: IndentationError"),
    ],
)
def test_broken_config_file_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    for read in (read_config, compile_config):
        with pytest.raises(ConfigError, match=message) as error:
            read(str(path))
        assert str(path) in str(error.value)


def test_missing_config_file(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "absent.py", "does not exist"), (tmp_path, "is a directory")):
        with pytest.raises(ConfigError, match=rf"{what}: give the path of a Python file\.$"):
            read_config(path)


def test_config_file_is_not_run_as_main_and_not_from_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    text = "main_config = dict(seed={})\ncreate_config = dict(name=__name__)\nassert __name__ != '__main__'\n"
    for seed in (1, 2):
        path.write_text(text.format(seed))
        os.utime(path, (1, 1))  # same size and time: a cached bytecode file would still look fresh
        assert read_config(path)[0] == dict(seed=seed)
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize("config", [CARTPOLE, PONG])
def test_saved_config_compiles_to_the_same(tmp_path: Path, config: Any) -> None:
    cfg = compile_config(config, seed=5, overrides=["policy.learn.batch_size=16", "env.stop_value=None"])
    set_shapes(cfg, check_env(cfg.env))
    save_config(cfg, tmp_path / "total_config.py", max_env_step=100)
    again = compile_config(tmp_path / "total_config.py")
    assert {**again, "notes": None} == {**cfg, "notes": None}
    save_config(again, tmp_path / "again.py", max_env_step=100)
    assert compile_config(tmp_path / "again.py") == again


def test_saved_config_keeps_every_kind_of_value(tmp_path: Path) -> None:
    main = dict(
        exp_name="quote ' \" \\ and\nnewline é",
        env=dict(stop_value=math.inf, kwargs={"not a name": [None, True, -0.0, 1e-300, {"if": ()}]}),
        policy=dict(priority=True),
    )
    cfg = compile_config(pair(main, env_manager=dict(type="async_subprocess")))
    save_config(cfg, tmp_path / "c.py")
    again = compile_config(tmp_path / "c.py")
    assert len(cfg.notes) == 1
    assert again.notes == []
    del cfg["notes"], again["notes"]
    assert again == cfg
