"""`--together`: the runs of several seeds or directories in step, in the same processes."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.cli.commands import mistake
from tests.distributed.launcher import finish, run_forked, start_forked
from tests.run.helpers import CONFIG, SHORT, result
from tests.survival.common import wait_until

WORDS = ["train", "-c", str(CONFIG), "-s", "0", "1", "2", "--together", *SHORT[1:], "env.stop_value=None"]


def test_runs_save_at_a_signal_and_go_on_together(tmp_path: Path) -> None:
    words = [*WORDS, "exp_name=run"]
    process = start_forked(["-m", "ding_lite", *words])
    wait_until(lambda: len(list(tmp_path.glob("run_seed*/ckpt/ckpt_last.pth.tar"))) == 3, process, 240)
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    done = finish(process, timeout=240)
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr.count("SIGINT: stopping after this iteration") == 1
    for seed in range(3):
        assert json.loads((tmp_path / f"run_seed{seed}/result.json").read_text())["stop_reason"] == "interrupted"
        assert f"seed {seed} interrupted: continue with ding_lite resume run_seed{seed}" in done.stderr
    steps = max(result(tmp_path / f"run_seed{seed}")["envstep"] for seed in range(3)) + 80
    done = run_forked(["-m", "ding_lite", *words, "--resume", f"max_env_step={steps}"], 300)
    assert [line.split()[1] for line in done.stdout.splitlines()[1:4]] == ["max_env_step"] * 3
    assert "3 runs in step: losses and gradients take" in done.stderr
    names = [f"run_seed{seed}" for seed in range(3)]
    assert sorted(path.name for path in tmp_path.glob("run*")) == names
    more = [f"max_env_step={steps + 80}", "--together"]
    run_forked(["-m", "ding_lite", "resume", *names[:2], *more], 300)
    assert [result(tmp_path / name)["envstep"] for name in names] == [steps + 80, steps + 80, steps]
    text = (tmp_path / "run_seed0/log/log.txt").read_text()
    assert text.count("resumed from ") == 2


@pytest.mark.slow
def test_several_ranks_train_their_shares_of_every_run(tmp_path: Path) -> None:
    """The learning step is that of one process; the ranks play other environments, so returns are not compared."""
    done = run_forked(["-m", "ding_lite", *WORDS, "--nproc", "2", "--divide", "max_env_step=400", "exp_name=run"], 300)
    for seed in range(3):
        told = result(tmp_path / f"run_seed{seed}")
        assert (told["envstep"], told["world_size"], told["seed"]) == (400, 2, seed)
    assert done.stderr.count("ended: max_env_step") == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-s", "0"], "--together trains several runs"),
        (["-s", "0", "1", "--jobs", "2"], "leave out --jobs and --submit"),
        (["-s", "0", "1", "-m", "rpc"], "leave -m rpc or --together out"),
        (["-s", "0", "1", "policy.learn.batch_sise=3"], "batch_size"),
    ],
)
def test_mistakes_are_one_line(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert text in mistake(capsys, "train", "-c", str(CONFIG), "--together", *words)
    assert not list(Path().glob("cartpole*"))
