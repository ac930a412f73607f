"""Every config file of dizoo compiles against its own environment."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path

import pytest

from ding_lite.config import check_shapes, compile_config, read_config
from ding_lite.config.config import pipeline_of
from ding_lite.envs import check_env
from ding_lite.utils import POLICY_REGISTRY
from tests.distributed.launcher import ROOT
from tests.dizoo.extras import EXTRAS, needs

CONFIGS = sorted((ROOT / "dizoo").rglob("*_config.py"))
NAMES = [str(path.relative_to(ROOT)) for path in CONFIGS]


def test_the_main_job_is_among_them() -> None:
    assert "dizoo/atari/pong_dqn_ddp_config.py" in NAMES


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_it_compiles_and_fits_its_environment(path: Path) -> None:
    pair = read_config(path)
    before = copy.deepcopy(pair)
    cfg = compile_config(pair)
    needs(EXTRAS.get(cfg.env.type))
    check_shapes(cfg, check_env(cfg.env))
    assert pair == before
    assert cfg.notes == []  # no key of an example is ignored or renamed
    policy = POLICY_REGISTRY.find(cfg.policy.type)(cfg.policy)
    assert sum(parameter.numel() for parameter in policy.model.parameters()) > 0


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_its_name_tells_the_seed_and_it_runs_by_itself(path: Path) -> None:
    text = path.read_text()
    main_config, create_config = read_config(path)
    assert main_config["exp_name"].endswith("_seed0")
    assert 'if __name__ == "__main__":' in text
    cfg = compile_config((main_config, create_config))
    pipeline = "serial_pipeline_rpc" if "_rpc_" in path.name else pipeline_of(cfg.policy)
    assert re.search(rf"\b{pipeline}\(.*, create_config\), seed=0", text)


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_its_first_line_says_what_it_learns(path: Path) -> None:
    main_config, _ = read_config(path)
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    game = re.split(r"NoFrameskip|-v\d", main_config["env"]["env_id"])[0]
    assert game in docstring.partition("\n")[0]


@pytest.mark.parametrize("path", [path for path in CONFIGS if "_ddp_" in path.name], ids=lambda path: path.name)
def test_several_processes_can_share_its_sizes(path: Path) -> None:
    main_config, _ = read_config(path)
    assert main_config["policy"]["multi_gpu"] is True
    if "to_ddp_config" not in path.read_text():
        return  # its sizes are per process
    collect, batch_size = main_config["policy"]["collect"], main_config["policy"]["learn"]["batch_size"]
    assert batch_size % 2 == 0
    if compile_config(read_config(path)).policy.offline:
        return  # nothing is collected
    num_envs = main_config["env"]["collector_env_num"]
    unroll_len = main_config["policy"].get("unroll_len", 1)
    assert (collect.get("n_sample") or collect.get("n_episode")) // 2 * unroll_len % num_envs == 0
