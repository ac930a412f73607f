"""`eval PATH` evaluates a checkpoint with the config of its run."""

from __future__ import annotations

import pytest

from tests.cli.commands import call

pytestmark = pytest.mark.usefixtures("run_directory")


def test_a_run_or_a_checkpoint_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    call("eval", "run", "env.max_episode_steps=5", "--episodes", "3", "-s", "1")
    call("eval", "run/ckpt/ckpt_last.pth.tar", "env.max_episode_steps=4")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("return 5.00 +- 0.00")
    assert first.endswith("over 3 episodes")
    assert second.startswith("return 4.00 +- 0.00")
