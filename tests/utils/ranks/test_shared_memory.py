"""Memory that ranks of one machine share is verified, not assumed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.launcher import finish, free_port, start, start_forked

APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
SCRIPT = """
import sys
from pathlib import Path
import torch
from ding_lite.utils import DDPContext, get_rank
from tests.policy.helpers import make_batch, make_policy, parameter_hash

torch.set_num_threads(1)
with DDPContext(timeout=60):
    torch.manual_seed(get_rank())
    policy = make_policy("multi_gpu=True")
    for seed in range(3):
        policy.learn(make_batch(8, 2 * seed + get_rank()))
    flat = policy._optimizer.flat
    Path(sys.argv[1], f"rank{get_rank()}").write_text(f"{flat.is_shared} {parameter_hash(policy.model)}")
"""


def run(tmp_path: Path, before: list[str], **variables: str) -> list[tuple[bool, str]]:
    """Train on two ranks that are started by hand, each by the words `before`; return if they share, and hashes."""
    port, script = str(free_port()), tmp_path / "script.py"
    script.write_text(SCRIPT)
    master = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables}
    words = [str(script), str(tmp_path)]
    processes = [
        start([*before, sys.executable, *words], env) if before else start_forked(words, env)
        for env in ({**master, "RANK": str(rank)} for rank in range(2))
    ]
    for process in processes:
        done = finish(process, 240)
        assert done.returncode == 0, done.stderr
    found = [(tmp_path / f"rank{rank}").read_text().split() for rank in range(2)]
    return [(shared == "True", digest) for shared, digest in found]


@pytest.mark.parametrize("local", [{}, {"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}])
def test_ranks_of_one_machine_share_whatever_the_launcher_says(tmp_path: Path, local: dict[str, str]) -> None:
    (first, left), (second, right) = run(tmp_path, [], **local)
    assert first
    assert second
    assert left == right


def test_gradients_are_averaged_between_containers_that_share_no_memory(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run([*APART, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not allow namespaces")
    (first, left), (second, right) = run(tmp_path, APART)
    assert not first
    assert not second
    assert left == right
    (tmp_path / "together").mkdir()
    assert left == run(tmp_path / "together", [])[0][1]  # sums of two numbers are the same in either way
