"""Every config file of dizoo compiles against its own environment."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

from ding_lite.config import check_shapes, compile_config, read_config
from ding_lite.envs import check_env
from ding_lite.utils import POLICY_REGISTRY
from tests.distributed.launcher import ROOT

CONFIGS = sorted((ROOT / "dizoo").rglob("*_config.py"))
NAMES = [str(path.relative_to(ROOT)) for path in CONFIGS]


def test_the_main_job_is_among_them() -> None:
    assert "dizoo/atari/pong_dqn_ddp_config.py" in NAMES


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_it_compiles_and_fits_its_environment(path: Path) -> None:
    pair = read_config(path)
    before = copy.deepcopy(pair)
    cfg = compile_config(pair)
    check_shapes(cfg, check_env(cfg.env))
    assert pair == before
    assert cfg.notes == []  # no key of an example is ignored or renamed
    policy = POLICY_REGISTRY.find(cfg.policy.type)(cfg.policy)
    assert sum(parameter.numel() for parameter in policy.model.parameters()) > 0


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_its_name_tells_the_seed_and_it_runs_by_itself(path: Path) -> None:
    text = path.read_text()
    main_config, _ = read_config(path)
    assert main_config["exp_name"].endswith("_seed0")
    assert 'if __name__ == "__main__":' in text
    assert re.search(r"serial_pipeline\(.*, create_config\), seed=0", text)
