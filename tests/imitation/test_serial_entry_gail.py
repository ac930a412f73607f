"""DI-engine's entry, with a config of its form: the expert's config, and a checkpoint as the expert."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline, serial_pipeline_gail
from ding_lite.run.pipelines import MODES
from ding_lite.worker import read_dataset
from tests.imitation.helpers import pair, write_cartpole_expert

SECTION: dict[str, Any] = dict(
    input_size=5, hidden_size=64, batch_size=64, learning_rate=1e-3, update_per_collect=2, collect_count=100
)


def di_engine_pair(**section: Any) -> Any:
    main, create = pair()
    main["reward_model"] = copy.deepcopy(SECTION) | section
    del create["reward_model"]  # two of DI-engine's files do not name it at all
    return main, create


@pytest.mark.parametrize("section", [dict(type="gail"), dict(data_path="where it is recorded")])
def test_di_engines_keys_are_understood(section: dict[str, str]) -> None:
    cfg = compile_config(di_engine_pair(expert_model_path="teacher/ckpt/ckpt_best.pth.tar", **section))
    assert (cfg.reward_model.type, cfg.reward_model.hidden_size_list) == ("gail", [64])
    assert cfg.reward_model.data_path == "teacher/ckpt/ckpt_best.pth.tar"
    assert "reward_model.input_size is ignored: the environment determines it." in cfg.notes
    given = ["reward_model.data_path=other.npz"]
    cfg = compile_config(di_engine_pair(expert_model_path="teacher", **section), overrides=given)
    assert cfg.reward_model.data_path == "other.npz"


def test_the_experts_policy_is_recorded_first_or_the_data_set_is_read(tmp_path: Path) -> None:
    expert = pair()
    expert[0]["exp_name"] = "teacher"
    del expert[0]["reward_model"], expert[1]["reward_model"]
    serial_pipeline(expert, seed=0, max_train_iter=8)
    config = di_engine_pair(expert_model_path="teacher/ckpt/ckpt_last.pth.tar")
    assert serial_pipeline_gail(config, expert, seed=0, max_train_iter=8).iteration >= 8
    assert len(read_dataset("run_expert.npz")) == SECTION["collect_count"]
    write_cartpole_expert()
    assert serial_pipeline_gail(pair(), expert, 0, max_train_iter=8, collect_data=False).iteration >= 8
    assert MODES["serial_gail"] == "serial_pipeline_gail"
