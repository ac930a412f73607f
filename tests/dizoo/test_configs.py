"""Every config file of dizoo compiles against its own environment."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config, read_config, set_shapes
from ding_lite.config.schema import PIPELINE_OF, config_schema, find_class
from ding_lite.config.shapes import divide
from ding_lite.envs import check_env
from ding_lite.policy import create_policy
from ding_lite.run.setup import FIELDS
from ding_lite.utils import POLICY_REGISTRY
from ding_lite.utils.key import get_key
from tests.distributed.launcher import ROOT
from tests.dizoo.extras import EXTRAS, needs, needs_robots

CONFIGS = sorted((ROOT / "dizoo").rglob("*_config.py"))
TEMPLATES = sorted((ROOT / "dizoo" / "atari" / "config" / "serial").glob("atari_*_config.py"))
BUILT: set[str] = set()  # networks that a test has built
NAMES = [str(path.relative_to(ROOT)) for path in CONFIGS]
# What need not be said: sizes that a twin changes, and what names the file's environment and run.
SAID = ("exp_name", "env.env_id", "policy.learn.batch_size", "policy.collect.n_sample", "policy.collect.n_episode")
PUBLISHED = ("pong_dqn_config.py", "pong_dqn_ddp_config.py", "pong_dqn_envpool_config.py")  # every value of DI-engine's


def test_the_main_job_is_among_them() -> None:
    assert "dizoo/atari/pong_dqn_ddp_config.py" in NAMES


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_it_compiles_fits_its_environment_and_says_what_it_learns(path: Path) -> None:
    pair, text = read_config(path), path.read_text()
    before = copy.deepcopy(pair)
    cfg = compile_config(pair)
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert re.split(r"NoFrameskip|-v\d", pair[0]["env"]["env_id"])[0] in docstring.partition("\n")[0]
    result = r"Result: .*(?:\d|_config\.py`).*\."  # a number, or the file whose values these are
    none = r"Values of DI-engine[^.]*, not trained here\.|Not trained here\.|No result is recorded\."
    assert re.search(rf"(?:^|\. )(?:{result}|{none})$", " ".join(docstring.split()))
    assert cfg.exp_name.endswith("_seed0")
    assert 'if __name__ == "__main__":' in text
    of_its_class = PIPELINE_OF[POLICY_REGISTRY.find(cfg.policy.type).learns_from]
    pipeline = "serial_pipeline_rpc" if "_rpc_" in path.name else of_its_class
    pipeline = "serial_pipeline_(dyna|dream)" if "world_model" in cfg else pipeline
    assert re.search(rf"\b{pipeline}\(.*, create_config\), seed=0", text)
    if path.name not in PUBLISHED:
        assert repeated_defaults(pair, text) == []
    needs(EXTRAS.get(cfg.env.type))
    needs_robots(cfg.env)
    set_shapes(cfg, check_env(cfg.env))
    assert pair == before
    assert cfg.notes == []  # no key of an example is ignored or renamed
    network = repr((cfg.policy.type, cfg.policy.model))
    if network not in BUILT:  # many games share one, and each takes a while to initialise
        taught = "teacher_path" in cfg.policy.learn  # whose teacher has to be trained first
        policy = create_policy(cfg.policy, enable_field=("eval",) if taught else FIELDS)
        assert sum(parameter.numel() for parameter in policy.model.parameters()) > 0
        BUILT.add(network)


def test_a_file_whose_policy_another_file_has_copies_that_file() -> None:
    whole: dict[str, list[str]] = {}
    for path in CONFIGS:
        if "copy.deepcopy(" not in path.read_text():
            main_config, create_config = read_config(path)
            whole.setdefault(repr((main_config["policy"], create_config)), []).append(path.name)
    assert [names for names in whole.values() if len(names) > 1] == []


def repeated_defaults(pair: tuple[dict[str, Any], dict[str, Any]], text: str) -> list[str]:
    """Return the keys of a file whose values are the defaults, or which the environment tells."""
    main_config, create_config = pair
    user = {"env": create_config["env"], "policy": create_config["policy"]}
    schema = config_schema(user, find_class("policy", user))
    said = [key for key in schema if key not in SAID and get_key(main_config, key) is not None]
    back = re.findall(r"^\w+_config\.(\S+) = ", text, re.MULTILINE)  # to the default, which a copy changed
    said = [key for key in said if key not in back and get_key(main_config, key) == schema[key].default]
    return said + [key for key in ("obs_shape", "action_shape") if key in main_config["policy"].get("model", {})]


@pytest.mark.parametrize(("game", "num_actions"), [("BreakoutNoFrameskip-v4", 4), ("ALE/MsPacman-v5", 9)])
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_takes_the_actions_from_the_game(path: Path, game: str, num_actions: int) -> None:
    cfg = compile_config(path, overrides=[f"env.env_id={game}"])
    set_shapes(cfg, check_env(cfg.env))
    assert cfg.policy.model.action_shape == num_actions
    assert cfg.policy.model.obs_shape == [4, 84, 84]
    assert cfg.env.stop_value is None  # it would fit one game only


@pytest.mark.parametrize("path", [path for path in CONFIGS if "_ddp_" in path.name], ids=lambda path: path.name)
def test_several_processes_can_share_its_sizes(path: Path) -> None:
    main_config, _ = read_config(path)
    assert main_config["policy"]["multi_gpu"] is True
    if "to_ddp_config" not in path.read_text():
        return  # its sizes are per process
    cfg = compile_config(read_config(path), overrides=["policy.divide=True"])
    assert (
        divide(cfg, find_class("policy", cfg).learns_from, 1, 2).policy.learn.batch_size
        == cfg.policy.learn.batch_size / 2
    )
