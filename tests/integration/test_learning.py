"""Does DQN learn? CartPole-v0 to a mean return of 195, on one process and on two."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.launcher import ROOT, finish, launch, start

CONFIGS = ROOT / "dizoo" / "classic_control" / "cartpole" / "config"
STEPS = 60_000  # env steps of all ranks; a seed needs about a third of it


@pytest.mark.learn
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nproc", [1, 2])
def test_cartpole_is_solved(tmp_path: Path, nproc: int, seed: int) -> None:
    name = "cartpole_dqn_config.py" if nproc == 1 else "cartpole_dqn_ddp_config.py"
    words = ["-m", "ding_lite", "-c", str(CONFIGS / name), "-s", str(seed), "exp_name=run", f"max_env_step={STEPS}"]
    began = time.time()
    if nproc == 1:
        done = finish(start([sys.executable, *words], cwd=tmp_path), timeout=280)
    else:  # sizes are per process: what to_ddp_config makes of the file's
        halves = ["policy.learn.batch_size=32", "policy.collect.n_sample=8"]
        done = launch([*words, *halves], nproc, timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "run" / "result.json").read_text())
    print(f"solved after {told['envstep']} env steps, {time.time() - began:.0f} s")
    assert told["stop_reason"] == "stop_value", told
    assert told["eval_return_best"] >= 195
    assert told["world_size"] == nproc
