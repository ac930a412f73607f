"""Training from Python: the run that comes back, its figures, its agent, mistakes and Ctrl-C."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ding_lite
from ding_lite.config import compile_config, replace_values
from ding_lite.entry import Callback
from ding_lite.utils import ConfigError
from ding_lite.utils.logger import ExperimentLogger
from ding_lite.utils.ranks.collectives import get_rank
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash
from tests.run.helpers import CONFIG, Interrupts, metrics, pair, run

EVERY: dict[str, Any] = {"policy.eval.evaluator.eval_freq": 100, "policy.learn.learner.hook.log_show_after_iter": 20}


def test_a_run_returns_its_directory_figures_and_agent(tmp_path: Path) -> None:
    trained = ding_lite.train(CONFIG, seed=np.int64(0), max_env_step=320, exp_name="run", **EVERY)
    assert (trained.directory, trained.stop_reason) == ("run", "max_env_step")
    records, columns = metrics(tmp_path / "run"), trained.metrics
    assert {len(column) for column in columns.values()} == {len(records)}
    evaluated = ~np.isnan(columns["eval/return_mean"])
    assert trained.best_return == columns["eval/return_mean"][evaluated].max()
    assert columns["envstep"][-1] == 320
    env = trained.agent.make_env()
    assert env.action_space.contains(trained.agent.act(env.reset(seed=0)[0]))
    assert repr(trained) == f"TrainedRun('run': max_env_step, best return {trained.best_return:.2f})"
    assert trained.policy is not None
    assert parameter_hash(trained.policy.model) == parameter_hash(
        run("exp_name=other").model
    )  # what the pipeline trains


def test_overrides_are_nested_or_dotted() -> None:
    nested: dict[str, Any] = {"policy": {"learn": {"batch_size": 16}, "collect": {"n_sample": 16}}}
    trained = ding_lite.train(pair(), max_env_step=80, exp_name="run", env={"env_id": "CartPole-v1"}, **nested)
    config = trained.agent.config
    assert (config.policy.learn.batch_size, config.policy.collect.n_sample) == (16, 16)
    assert config.env.env_id == "CartPole-v1"
    with pytest.raises(ConfigError, match=r"Did you mean 'policy\.learn\.batch_size'"):
        ding_lite.train(pair(), policy={"learn": {"bacth_size": 16}})


@pytest.mark.parametrize("limit", [0, -5, 1.5, math.nan, "many"])
def test_a_limit_is_a_whole_number_above_0(limit: Any) -> None:
    with pytest.raises(ConfigError, match=f"max_train_iter: expected a whole number above 0, got {limit!r}"):
        ding_lite.train(pair(), max_train_iter=limit)


def test_an_argument_that_is_misspelt_is_not_taken_for_a_key() -> None:
    def values(name: str) -> dict[str, Any]:
        return {name: 3}

    for name, right in (("max_env_steps", "max_env_step"), ("max_iter", "max_train_iter"), ("callback", "callbacks")):
        with pytest.raises(ConfigError, match=f"Unknown argument '{name}'. Did you mean '{right}'"):
            ding_lite.train(pair(), **values(name))
    with pytest.raises(ConfigError, match=r"Did you mean 'env\.max_episode_steps'"):
        ding_lite.train(pair(), **values("env.max_episode_step"))


def test_a_dict_replaces_a_number_and_is_merged_into_a_dict() -> None:
    linear = {"type": "linear", "start": 1e-3, "end": 1e-4, "over": 100, "by": "env_step"}
    main, create = replace_values(pair(), {"policy.learn.learning_rate": 0.01, "policy": {"learn": {"batch_size": 4}}})
    assert main["policy"]["learn"]["learning_rate"] == 0.01
    main, create = replace_values((main, create), {"policy": {"learn": {"learning_rate": linear}}})
    assert main["policy"]["learn"]["learning_rate"] == linear
    assert main["policy"]["learn"]["batch_size"] == 4
    replaced, _ = replace_values((main, create), {"policy.learn.learning_rate": {"over": 50}})
    assert replaced["policy"]["learn"]["learning_rate"] == linear | {"over": 50}
    assert compile_config((replaced, create)).policy.learn.learning_rate.over == 50
    piecewise = {"type": "piecewise", "points": [[0, 1e-3], [100, 1e-4]], "by": "env_step"}
    replaced, _ = replace_values((main, create), {"policy.learn.learning_rate": piecewise})
    assert replaced["policy"]["learn"]["learning_rate"] == piecewise


def test_callbacks_reach_the_run_and_a_finished_one_can_be_continued() -> None:
    class StopAtOnce(Callback):
        def on_start(self, run: Any) -> None:
            run.stop()

    trained = ding_lite.train(pair(), exp_name="run", callbacks=[StopAtOnce()])
    assert (trained.stop_reason, trained.result["envstep"]) == ("callback", 0)


def test_an_interrupted_run_is_returned_with_what_it_has_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"left": 300}
    config = pair()
    from ding_lite.utils import ENV_REGISTRY  # noqa: PLC0415  (registered for this test alone)

    monkeypatch.setitem(ENV_REGISTRY, "interrupts", type("Env", (Interrupts,), {"__init__": _init_with(state)}))
    config[1]["env"] = {"type": "interrupts"}
    config[0]["env"] = {"collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1}
    trained = ding_lite.train(
        config, exp_name="run", policy={"learn": {"learner": {"hook": {"save_ckpt_after_iter": 50}}}}
    )
    assert trained.stop_reason == "interrupted"
    assert trained.policy is None
    assert json.loads(Path("run/result.json").read_text())["signal"] == 2
    assert len(trained.metrics["envstep"]) >= 1


def _init_with(state: dict[str, Any]) -> Any:
    def init(self: Any, cfg_env: Any) -> None:
        Interrupts.__init__(self, state)

    return init


def test_an_offline_policy_has_no_limit_of_env_steps() -> None:
    config = (
        {"policy": {"collect": {"data_path": "gone.npz"}}, "env": {"env_id": "CartPole-v1"}},
        {"policy": {"type": "bc"}},
    )
    with pytest.raises(ConfigError, match="set max_train_iter"):
        ding_lite.train(config, max_env_step=100)


def train_on_two_ranks() -> str:
    write = ExperimentLogger.write_result

    def write_late(logger: ExperimentLogger, result: dict[str, Any]) -> None:
        if get_rank() == 0:
            time.sleep(2.0)
        write(logger, result)

    ExperimentLogger.write_result = write_late  # type: ignore[assignment, method-assign]
    return repr(ding_lite.train(pair(), max_env_step=32, exp_name="run", policy={"multi_gpu": True}))


def test_all_ranks_know_how_the_run_ended(tmp_path: Path) -> None:
    first, second = call_on_ranks(train_on_two_ranks, cwd=tmp_path)
    assert first == second
    assert first.startswith("TrainedRun('run': max_env_step, best return ")
