"""Runs with a world model: every kind of policy, resumed, on several ranks, refused where they are wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import serial_pipeline, serial_pipeline_dream, serial_pipeline_dyna
from ding_lite.policy import Policy
from ding_lite.torch_utils.networks import checksum_networks
from ding_lite.utils import CheckpointError, ConfigError, load_checkpoint
from ding_lite.world_model import MBPOWorldModel
from tests.distributed.launcher import ROOT, finish, start
from tests.distributed.on_ranks import call_on_ranks
from tests.run.helpers import metrics, result
from tests.survival.common import differences
from tests.world_model.helpers import pair


def train(*words: str, kind: str = "sac", max_env_step: int = 120, **env: Any) -> Policy:
    return serial_pipeline_dyna(pair(kind, **env), seed=0, max_env_step=max_env_step, overrides=words)


def last_state(folder: str) -> Any:
    state = load_checkpoint(f"{folder}/ckpt/ckpt_last.pth.tar")
    own = load_checkpoint(f"{folder}/ckpt/iteration_{state['learner']['train_iter']}.rank_0.pth.tar")
    return {"global": {key: value for key, value in state.items() if key != "record"}, "local": own}


@pytest.mark.parametrize("kind", ["sac", "td3", "ddpg", "redq", "dqn"])
def test_policies_that_learn_from_transitions_learn_from_imagined_ones(kind: str) -> None:
    words = ["policy.collect.noise_type=ou"] * (kind == "ddpg") + ["policy.nstep=2"] * (kind == "dqn")
    policy = train(*words, kind=kind, discrete=kind == "dqn")
    assert policy.iteration == 2 * (120 - 48) // 8  # two for each collect of 8 steps after 48 at random


def test_a_run_that_is_stopped_and_resumed_equals_the_whole_run() -> None:
    # With an evaluation after each collect, none is added where a run ends.
    words = ["env.norm_obs=True", "world_model.model.deterministic_rollout=False", "policy.eval.evaluator.eval_freq=2"]
    words += ["policy.learn.learner.hook.log_show_after_iter=3"]
    train(*words, "exp_name=whole", max_env_step=160)
    train(*words, "exp_name=parts", max_env_step=88)  # between two trainings, at 80 and 104
    train(*words, "exp_name=parts", "policy.learn.resume_training=True", max_env_step=160)
    assert result(Path("parts"))["envstep"] == 160
    assert len(last_state("whole")["local"]["world_model"]["own"]["steps"]["reward"]) > 31
    assert not differences(last_state("whole"), last_state("parts"))


def test_a_checkpoint_without_imagined_steps_imagines_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    word = "policy.learn.learner.hook.save_replay_buffer=False"
    train(word, max_env_step=88)
    assert "own" not in last_state("run")["local"]["world_model"]
    before: list[int] = []
    imagine = MBPOWorldModel.imagine

    def watch(self: MBPOWorldModel, envstep: int) -> None:
        before.append(len(self._imagination))
        imagine(self, envstep)

    monkeypatch.setattr(MBPOWorldModel, "imagine", watch)
    train(word, "policy.learn.resume_training=True", max_env_step=160)
    assert before[0] == 0
    assert before[1] > 0


def test_figures_are_logged_under_the_models_name_and_returns_are_the_environments(tmp_path: Path) -> None:
    train("policy.learn.learner.hook.log_show_after_iter=6")
    records = metrics(tmp_path / "run")
    figures = {key for record in records for key in record if key.startswith("world_model/")}
    assert {f"world_model/{name}" for name in ("loss", "holdout_mse", "epochs", "network_learning_rate")} <= figures
    returns = [value for record in records for key, value in record.items() if key.endswith("/return_mean")]
    assert returns
    assert all(-12 * 1.2**2 <= value <= 0.0 for value in returns)  # 12 steps of a point that is at most at 1.2


def train_on_ranks(dream: bool) -> tuple[Any, Any, int]:
    """Train on the ranks of this group; return checksums of the model's and policy's networks, and the epochs."""
    models: list[MBPOWorldModel] = []
    connect = MBPOWorldModel.connect

    def remember(self: MBPOWorldModel, *args: Any) -> None:
        connect(self, *args)
        models.append(self)

    MBPOWorldModel.connect = remember  # type: ignore[method-assign, assignment]
    pipeline, kind = (serial_pipeline_dream, "mbsac") if dream else (serial_pipeline_dyna, "sac")
    words = ["policy.learn.learner.hook.check_ranks_after_iter=4"]
    policy = pipeline(pair(kind), seed=0, max_env_step=240, overrides=words)
    return checksum_networks(models[0].networks), policy.checksum(), models[0]._optimizer.steps


@pytest.mark.parametrize("dream", [False, True])
def test_ranks_train_one_model_with_as_many_steps_each(dream: bool, tmp_path: Path) -> None:
    one, other = call_on_ranks(train_on_ranks, dream, timeout=200, cwd=tmp_path)
    assert one == other
    assert one[2] > 0


@pytest.mark.slow
def test_a_run_of_two_ranks_goes_on_with_one(tmp_path: Path) -> None:
    main, create = pair()
    Path(tmp_path, "config.py").write_text(f"main_config = {main!r}\ncreate_config = {create!r}\n")
    train = ["train", "-c", "config.py", "-m", "dyna", "-s", "0", "--divide", "--nproc", "2", "max_env_step=120"]
    for words in (train, ["resume", "run", "--nproc", "1", "max_env_step=240"]):
        done = finish(start([sys.executable, "-m", "ding_lite", *words], {"PYTHONPATH": str(ROOT)}, tmp_path), 100)
        assert done.returncode == 0, done.stderr
    assert result(tmp_path / "run")["envstep"] == 240


@pytest.mark.parametrize(
    ("kind", "word", "message"),
    [
        ("sac", "policy.priority=True", "policy.priority=True does not work with a world model"),
        ("sac", "world_model.model.elite_size=4", "elite_size=4 is more than ensemble_size=3"),
        ("sac", "world_model.rollout_length_scheduler.type=linear", None),
        ("r2d2", "", "learns from something else"),
        ("dqn", "env.wrappers=['tests.world_model.helpers:Image']", "predicts vectors of floats"),
        ("sac", "world_model.termination_fn=tests.nowhere:f", "world_model.termination_fn: expected 'module:function'"),
    ],
)
def test_mistakes_are_one_line(kind: str, word: str, message: str | None) -> None:
    main, create = pair(kind, discrete=kind != "sac")
    if kind == "r2d2":
        main["policy"] = dict(collect=dict(n_sample=2), unroll_len=2, burnin_step=0, nstep=1)
    overrides = [word] if word else []
    if "Image" in word:
        main["policy"]["model"] = dict(encoder_hidden_size_list=[8, 8, 8, 8])
    if message is None:
        overrides.append("world_model.rollout_length_scheduler.rollout_start_step=150000")
        message = "expected rollout_start_step < rollout_end_step"
        main["world_model"]["rollout_length_scheduler"] = {}
    with pytest.raises(ConfigError) as caught:
        serial_pipeline_dyna((main, create), seed=0, max_env_step=120, overrides=overrides)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_terminal_states_need_a_function_that_knows_them() -> None:
    with pytest.raises(ConfigError, match="The environment has terminal states, and nothing says which imagined"):
        train(known=False, max_env_step=480)
    train("policy.learn.ignore_done=True", "exp_name=without", known=False)
    train("world_model.termination_fn=tests.world_model.helpers:beyond_the_edges", "exp_name=named", known=False)


def test_only_a_pipeline_with_a_world_model_takes_one() -> None:
    with pytest.raises(ConfigError, match=r"serial_pipeline does not use a world model, only serial_pipeline_dyna"):
        serial_pipeline(pair(), seed=0)
    main, create = pair()
    with pytest.raises(ConfigError, match="serial_pipeline_dyna needs a world model"):
        serial_pipeline_dyna(
            (
                {key: part for key, part in main.items() if key != "world_model"},
                {key: part for key, part in create.items() if key != "world_model"},
            ),
            seed=0,
        )


def test_a_run_is_not_resumed_with_another_model() -> None:
    train(max_env_step=80)
    with pytest.raises(CheckpointError, match="does not fit"):
        train("policy.learn.resume_training=True", "world_model.model.hidden_size=8")
