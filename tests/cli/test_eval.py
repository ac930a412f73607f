"""`eval PATH` evaluates a checkpoint with the config of its run."""

from __future__ import annotations

import pytest

from ding_lite.utils.registry import ConfigError
from tests.cli.commands import call

pytestmark = pytest.mark.usefixtures("run_directory")


def test_a_run_or_a_checkpoint_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    call("eval", "run", "env.max_episode_steps=5", "--episodes", "3", "-s", "1")
    call("eval", "run/ckpt/ckpt_last.pth.tar", "env.max_episode_steps=4")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("return 5.00 +- 0.00")
    assert first.endswith("over 3 episodes")
    assert second.startswith("return 4.00 +- 0.00")


def test_mistakes_are_one_line() -> None:
    for words, message in (
        (["gone"], "'gone' does not exist"),
        (["run", "--episodes", "0"], "at least one episode"),
        (["run", "env.frame_stak=4"], "Did you mean 'env.frame_stack'"),
        (["run", "max_env_step=9"], "max_env_step has no effect on an evaluation"),
        (["run/metrics.jsonl"], "is not in the ckpt folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            call("eval", *words)
