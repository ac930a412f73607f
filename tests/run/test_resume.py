"""A run that was stopped and resumed is the run that was never stopped: parameters, optimizer, replay, metrics."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from ding_lite.entry import Callback, serial_pipeline, serial_pipeline_onpolicy
from ding_lite.run.callbacks import WatchedRun
from ding_lite.utils import CheckpointError, ConfigError, load_checkpoint
from tests.run.helpers import Interrupts, curves, last_checkpoint, metrics, result
from tests.survival.common import differences

cartpole_dqn_config, cartpole_ppo_config, cartpole_r2d2_config = (
    import_module(f"dizoo.classic_control.cartpole.config.{name}")
    for name in ("cartpole_dqn_config", "cartpole_ppo_config", "cartpole_r2d2_config")
)

SHORT = {
    "dqn": [
        "policy.priority=True", "policy.priority_IS_weight=True", "policy.random_collect_size=32",
        "policy.learn.learner.hook.log_show_after_iter=7", "policy.eval.evaluator.eval_freq=40",
    ],
    "ppo": [
        "policy.learn.value_norm=True", "policy.collect.n_sample=64", "policy.learn.batch_size=32",
        "policy.learn.epoch_per_collect=2", "policy.learn.learner.hook.log_show_after_iter=3",
        "policy.eval.evaluator.eval_freq=8",
    ],
    "r2d2": [
        "policy.priority=True", "policy.priority_IS_weight=True", "policy.unroll_len=4", "policy.burnin_step=2",
        "policy.nstep=2", "policy.random_collect_size=16", "policy.learn.update_per_collect=4",
        "policy.learn.learner.hook.log_show_after_iter=3", "policy.eval.evaluator.eval_freq=8",
    ],
}  # fmt: skip
SHORT["recurrent ppo"] = [*SHORT["ppo"], "policy.model.memory=gtrxl", "policy.model.share_encoder=True"]
SHORT["normalised dqn"] = [*SHORT["dqn"], "env.norm_obs=True", "env.norm_reward=True"]
SHORT["batched ppo"] = [*SHORT["ppo"], "env.manager.type=batched", "env.norm_obs=True"]
SHORT["batched dqn"] = [*SHORT["dqn"], "env.manager.type=batched"]
SHORT["batched recurrent ppo"] = [*SHORT["recurrent ppo"], "env.manager.type=batched"]
SAVES = {"dqn": 50, "ppo": 8, "r2d2": 100, "recurrent ppo": 8, "normalised dqn": 50}  # learner iterations
PAIRS = {
    "dqn": (cartpole_dqn_config, serial_pipeline),
    "normalised dqn": (cartpole_dqn_config, serial_pipeline),
    "ppo": (cartpole_ppo_config, serial_pipeline_onpolicy),
    "r2d2": (cartpole_r2d2_config, serial_pipeline),
    "recurrent ppo": (cartpole_ppo_config, serial_pipeline_onpolicy),
}
for kind in ("dqn", "ppo", "recurrent ppo"):
    SAVES[f"batched {kind}"], PAIRS[f"batched {kind}"] = SAVES[kind], PAIRS[kind]
BATCHED = ["batched dqn", "batched ppo", "batched recurrent ppo"]
STEPS = 256  # env steps
PAUSE = 1.0  # seconds between a run's end and its resumption


def schedule(key: str, start: float, end: float, over: int, by: str) -> str:
    return f"policy.{key}={dict(type='linear', start=start, end=end, over=over, by=by)}"


SCHEDULED = {
    "dqn": [
        schedule("learn.learning_rate", 1e-3, 1e-5, STEPS, "env_step"),
        schedule("learn.weight_decay", 0.0, 0.1, 200, "iteration"),
        "policy.learn.optimizer=rmsprop", schedule("learn.momentum", 0.9, 0.5, 200, "iteration"),
        schedule("learn.target_theta", 0.5, 0.01, 200, "iteration"), "policy.learn.target_update_freq=None",
        schedule("discount_factor", 0.9, 0.99, 300, "iteration"), schedule("eval.eps", 0.5, 0.0, 300, "iteration"),
    ],
    "ppo": [
        schedule("learn.learning_rate", 1e-3, 1e-5, STEPS, "env_step"),
        schedule("learn.clip_ratio", 0.3, 0.1, 8, "collect"),
        schedule("learn.entropy_weight", 0.1, 0.0, 30, "iteration"), schedule("learn.kl_beta", 0.5, 0.0, 8, "collect"),
        schedule("discount_factor", 0.9, 0.99, STEPS, "env_step"), "policy.learn.lr_scheduler=None",
        "policy.learn.clip_scheduler=None", "policy.learn.optimizer=adamw", "policy.learn.betas=[0.5,0.9]",
    ],
}  # fmt: skip


def train(kind: str, name: str, *overrides: str, steps: int = STEPS, **options: Any) -> None:
    module, pipeline = PAIRS[kind]
    save = f"policy.learn.learner.hook.save_ckpt_after_iter={SAVES[kind]}"
    words = [
        *SHORT[kind],
        save,
        "env.stop_value=None",
        "env.evaluator_env_num=5",
        "env.n_evaluator_episode=5",
        f"exp_name={name}",
        *overrides,
    ]
    pair = (module.main_config, module.create_config)
    pipeline(pair, seed=3, max_env_step=steps, overrides=words, **options)


def last_state(folder: str) -> dict[str, Any]:
    """Return the state of all parts, but for what counts seconds and bytes."""
    state = load_checkpoint(f"{folder}/ckpt/ckpt_last.pth.tar")
    own = load_checkpoint(f"{folder}/ckpt/iteration_{state['learner']['train_iter']}.rank_0.pth.tar")
    return {"global": {key: value for key, value in state.items() if key != "record"}, "local": own}


def slow(*values: Any) -> Any:
    """Return a case that `make test-all` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def interrupting(left: int) -> Any:
    return (Interrupts, [{"left": -1}] * 7 + [{"left": left, "signal": signal.SIGUSR1}], [{"left": -1}] * 5)


@pytest.mark.parametrize("kind", [slow("dqn"), slow("ppo"), "r2d2", "recurrent ppo", "normalised dqn", *BATCHED])
def test_a_run_stopped_by_a_limit_and_resumed_equals_the_whole_run(kind: str) -> None:
    train(kind, "whole")
    train(kind, "parts", steps=STEPS // 2)
    assert result(Path("parts"))["envstep"] == STEPS // 2
    train(kind, "parts", "policy.learn.resume_training=True")
    assert not differences(last_state("whole"), last_state("parts"))
    if kind == "normalised dqn":
        assert last_state("whole")["global"]["policy"]["normalizer"]["obs.count"].tolist() == [STEPS] * 4
    changes = [line for line in Path("parts/log/log.txt").read_text().splitlines() if "changed:" in line]
    assert [line.partition("changed: ")[2] for line in changes] == [f"max_env_step={STEPS} ({STEPS // 2} at the start)"]


class FailAtCheckpoint(Callback):
    def after_checkpoint(self, run: WatchedRun, path: str) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize("kind", ["dqn", "ppo"])
def test_the_first_checkpoint_is_that_of_iteration_0_and_a_run_goes_on_from_it(kind: str) -> None:
    saving = "policy.eval.evaluator.eval_after=100"  # or the best checkpoint of the first evaluation comes before
    train(kind, "whole", saving)
    with pytest.raises(ZeroDivisionError):
        train(kind, "parts", saving, callbacks=[FailAtCheckpoint()])
    assert {path.name.partition(".")[0] for path in Path("parts/ckpt").iterdir()} == {"ckpt_last", "iteration_0"}
    train(kind, "parts", saving, "policy.learn.resume_training=True")
    assert not differences(last_state("whole"), last_state("parts"))


def test_a_run_whose_replay_buffer_does_not_fit_is_refused_and_loses_nothing() -> None:
    train("dqn", "run", steps=64)

    def contents() -> dict[Path, bytes]:
        files = (path for path in Path("run").rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files if path.name not in ("log.txt", "origin.jsonl")}

    before = contents()
    time.sleep(PAUSE)  # or TensorBoard gives the next file the same name
    with pytest.raises(ConfigError, match=r"The saved replay buffer has num_rows \d+, expected \d+: resume with"):
        train("dqn", "run", "policy.learn.resume_training=True", "policy.other.replay_buffer.replay_buffer_size=400")
    after = contents()
    assert before == {path: after[path] for path in before}
    train("dqn", "run", "policy.learn.resume_training=True", steps=128)
    assert result(Path("run"))["envstep"] == 128


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return a function of a kind: it returns the folder of that kind's run which nobody interrupts."""

    @functools.cache
    def train_once(kind: str) -> str:
        folder = str(tmp_path_factory.mktemp("whole") / "whole")
        train(kind, folder, *SCHEDULED.get(kind, []), env_setting=interrupting(-1))
        return folder

    return train_once


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        *(("dqn", 20), ("ppo", 3), ("ppo", 20)),
        *(slow("dqn", 3), slow("dqn", 27), slow("r2d2", 20), slow("recurrent ppo", 20)),
    ],
)
def test_an_interrupted_run_goes_on_in_its_directory_as_if_nothing_had_been(
    kind: str, left: int, whole: Callable[[str], str]
) -> None:
    words = SCHEDULED.get(kind, [])
    with pytest.raises(SystemExit) as end:
        train(kind, "parts", *words, env_setting=interrupting(left))
    assert end.value.code == 128 + signal.SIGUSR1
    told = result(Path("parts"))
    assert (told["stop_reason"], told["signal"]) == ("interrupted", signal.SIGUSR1)
    train(kind, "parts", *words, "policy.learn.resume_training=True", env_setting=interrupting(-1))
    assert not differences(last_state(whole(kind)), last_state("parts"))
    assert curves(Path("parts")) == curves(Path(whole(kind)))
    told = result(Path("parts"))
    assert (told["stop_reason"], told["signal"], told["envstep"]) == ("max_env_step", 0, STEPS)
    rates = [line["train/learning_rate"] for line in curves(Path("parts")) if "train/learning_rate" in line]
    assert sorted(rates, reverse=True) == rates
    assert kind not in SCHEDULED or rates[0] > 3 * rates[-1] > 5e-5


@pytest.mark.parametrize(
    ("kind", "left", "words"),
    [
        ("dqn", 20, ["policy.eval.eps=0.2"]),  # in the second evaluation, which draws random numbers
        slow("ppo", 15, ["policy.eval.evaluator.eval_freq=1000"]),  # in the last one
    ],
)
def test_an_interrupted_evaluation_is_played_again_when_the_run_goes_on(kind: str, left: int, words: list[str]) -> None:
    def train_and_signal(name: str, left: int, *more: str) -> None:
        players = [{"left": left, "signal": signal.SIGTERM}] + [{"left": -1}] * 4
        train(kind, name, *words, *more, env_setting=(Interrupts, [{"left": -1}] * 8, players))

    train_and_signal("whole", -1)
    with pytest.raises(SystemExit) as end:
        train_and_signal("parts", left)
    assert end.value.code == 128 + signal.SIGTERM
    assert result(Path("parts"))["stop_reason"] == "interrupted"
    train_and_signal("parts", -1, "policy.learn.resume_training=True")
    assert not differences(*(last_checkpoint(Path(name))["policy"]["model"] for name in ("whole", "parts")))
    assert curves(Path("parts")) == curves(Path("whole"))
    assert result(Path("parts"))["stop_reason"] == "max_env_step"


def test_seconds_go_on_where_the_checkpoint_left_off(tmp_path: Path) -> None:
    train("dqn", "parts", steps=STEPS // 2)
    first, saved = metrics(tmp_path / "parts"), last_checkpoint(tmp_path / "parts")["record"]["seconds"]
    time.sleep(PAUSE)
    train("dqn", "parts", "policy.learn.resume_training=True")
    lines = metrics(tmp_path / "parts")
    assert lines[: len(first)] == first
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert first[-1]["seconds"] < saved < seconds[len(first)] < result(tmp_path / "parts")["seconds"]
    before, after = first[-1], lines[len(first)]
    assert after["time"] - before["time"] - (after["seconds"] - before["seconds"]) > PAUSE / 2  # without the pause


class Unrepeatable(gymnasium.Wrapper):
    """CartPole; if `noise` is set, instead an episode without an end whose observations nobody can repeat."""

    def __init__(self, cfg: dict[str, Any]) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.noise = cfg["noise"]

    def step(self, action: Any) -> Any:
        if not self.noise:
            return super().step(action)
        return np.frombuffer(os.urandom(4), dtype=np.uint8).astype(np.float32) / 256, 1.0, False, False, {}


def test_an_environment_that_cannot_be_restored_is_named_and_its_last_step_truncated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setting = (Unrepeatable, [{"noise": env == 2} for env in range(8)], [{"noise": False}] * 5)
    train("dqn", "run", steps=STEPS // 2, env_setting=setting)
    before = last_state("run")["local"]
    capsys.readouterr()
    train("dqn", "run", "policy.learn.resume_training=True", env_setting=setting)
    assert "WARNING Environments [2] are not deterministic or cannot be restored" in capsys.readouterr().err
    ring = last_state("run")["local"]["replay"]["ring"]
    newest = before["replay"]["ring"]["size"] - 1  # both runs fit into the buffer
    rings = (before["replay"]["ring"], ring)
    was_cut_T, is_cut_T = (state["columns"]["traj_flag"].view(-1, 8)[:, 2] for state in rings)
    assert (was_cut_T[: newest + 1].sum(), is_cut_T[: ring["size"]].nonzero().tolist()) == (0, [[newest]])
    assert ring["episode_step"].view(-1, 8)[newest + 1, 2] == 0
    followed = ring["final_obs"][ring["final_place"] == 8 * newest + 2]
    assert torch.equal(followed, before["collector"]["env"]["obs"][2:3])  # of the step before the resume
    assert result(Path("run"))["envstep"] == STEPS


def test_what_was_logged_after_the_checkpoint_is_dropped() -> None:
    train("ppo", "whole")
    train("ppo", "cut", steps=STEPS // 2)
    folder = Path("cut", "ckpt")
    newest = max(int(path.name.split("_")[1].split(".")[0]) for path in folder.glob("iteration_*.rank_0.pth.tar"))
    with open(folder / f"iteration_{newest}.pth.tar", "r+b") as file:
        file.truncate(1000)
    before = curves(Path("cut"))
    train("ppo", "cut", "policy.learn.resume_training=True")
    assert not differences(last_state("whole"), last_state("cut"))
    assert curves(Path("cut")) == curves(Path("whole"))
    assert any(line["train_iter"] > newest - SAVES["ppo"] for line in before)  # there was something to drop


def test_without_the_replay_buffer_a_run_goes_on_and_fills_it_again() -> None:
    switch = "policy.learn.learner.hook.save_replay_buffer=False"
    train("dqn", "run", switch, steps=STEPS // 2)
    assert "replay" not in last_state("run")["local"]
    before = result(Path("run"))
    train("dqn", "run", switch, "policy.learn.resume_training=True")
    after = result(Path("run"))
    assert after["envstep"] == STEPS
    # 32 steps refill the buffer without learning; until it holds 64 samples nothing is learned
    assert before["train_iter"] < after["train_iter"] < before["train_iter"] + 5 * STEPS // 2 // 8


@pytest.mark.parametrize("damage", ["part", "newest", "all"])
def test_a_damaged_part_asks_a_damaged_checkpoint_is_skipped_unless_none_is_left(
    damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train("dqn", "run", steps=STEPS // 2)
    pattern = "iteration_*.rank_0.pth.tar" if damage == "part" else "iteration_*[0-9].pth.tar"
    files = sorted(Path("run", "ckpt").glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    assert (len(files) == 1) == (damage == "part"), "only the newest checkpoint has a replay buffer"
    for file in files if damage == "all" else files[-1:]:
        file.write_bytes(file.read_bytes()[:-40])
    before, names = result(Path("run")), sorted(Path("run", "ckpt").iterdir())
    if damage != "newest":
        message = "of rank 0 of 1 is lost" if damage == "part" else "No checkpoint in 'run/ckpt' can be loaded"
        with pytest.raises(CheckpointError, match=message):
            train("dqn", "run", "policy.learn.resume_training=True")
        assert result(Path("run")) == before, "a run that cannot be resumed keeps its result"
        assert sorted(Path("run", "ckpt").iterdir()) == names, "and its files"
    if damage == "all":
        return
    capsys.readouterr()
    train("dqn", "run", "policy.learn.resume_training=True", f"policy.learn.allow_lost_replay={damage == 'part'}")
    said = capsys.readouterr().err
    assert (f"WARNING Cannot read checkpoint '{files[-1]}'" in said) == (damage == "newest")
    assert (f"resumed from iteration_{before['train_iter']}:" in said) == (damage == "part")
    assert "WARNING The checkpoint has no replay buffer and no environments: episodes start anew." in said
    assert result(Path("run"))["envstep"] == STEPS


def test_resuming_without_a_checkpoint_is_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="'empty' has no checkpoint to resume from"):
        train("dqn", "empty", "policy.learn.resume_training=True")
