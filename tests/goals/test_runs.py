"""Runs with goals in hindsight: every policy, on several ranks, stopped and resumed, with normalised observations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.config import compile_config, set_shapes
from ding_lite.entry import serial_pipeline
from ding_lite.envs import check_env
from ding_lite.goals.her import HindsightView
from ding_lite.policy import SACPolicy
from ding_lite.utils import get_rank, get_world_size, load_checkpoint
from tests.distributed import parity
from tests.distributed.launcher import ROOT, finish, start
from tests.distributed.on_ranks import call_on_ranks
from tests.goals.line import LineHistory, create_buffer
from tests.run.helpers import result
from tests.survival.common import differences

CONFIG = """
main_config = dict(
    exp_name="run",
    env=dict(collector_env_num=4, evaluator_env_num=1, n_evaluator_episode=1),
    policy=dict(
        random_collect_size=0, model=dict(actor_head_hidden_size=8, critic_head_hidden_size=8),
        learn=dict(batch_size=16), collect=dict(n_sample=8), eval=dict(evaluator=dict(eval_freq=20)),
        other=dict(replay_buffer=dict(type="her", replay_buffer_size=200)),
    ),
)
create_config = dict(env=dict(type="goal_line", import_names=["tests.goals.line"]), policy=dict(type="sac"))
"""


def pair(kind: str = "sac") -> Any:
    names: dict[str, Any] = {}
    exec(CONFIG, names)
    names["create_config"]["policy"]["type"] = kind
    return names["main_config"], names["create_config"]


@pytest.mark.parametrize("kind", ["ddpg", "td3", "sac", "tqc", "redq"])
def test_policies_for_continuous_actions_learn_with_it(kind: str) -> None:
    policy = serial_pipeline(pair(kind), seed=0, max_train_iter=3, overrides=["policy.nstep=2"] * (kind == "ddpg"))
    assert policy.iteration >= 3


@pytest.mark.parametrize("kind", ["dqn", "c51", "rainbow"])
def test_policies_for_discrete_actions_learn_with_it(kind: str) -> None:
    main, create = pair(kind)
    main["policy"]["model"] = {}
    create["env"] = dict(type="bitflip", import_names=["dizoo.bitflip.envs.bitflip_env"])
    words = ["policy.nstep=3", "policy.priority=False", "policy.priority_IS_weight=False"]
    policy = serial_pipeline((main, create), seed=0, max_train_iter=3, overrides=words)
    assert policy.iteration >= 3


def last_state(folder: str) -> Any:
    state = load_checkpoint(f"{folder}/ckpt/ckpt_last.pth.tar")
    own = load_checkpoint(f"{folder}/ckpt/iteration_{state['learner']['train_iter']}.rank_0.pth.tar")
    return {"global": {key: value for key, value in state.items() if key != "record"}, "local": own}


def test_a_run_stopped_in_the_middle_of_episodes_and_resumed_equals_the_whole_run() -> None:
    # With an evaluation after each collect, none is added where a run ends.
    words = ["policy.other.replay_buffer.her_strategy=episode", "policy.nstep=2", "policy.eval.evaluator.eval_freq=8"]
    for name, steps, more in (("whole", 400, []), ("parts", 196, []), ("parts", 400, ["resume_training=True"])):
        overrides = [*words, f"exp_name={name}", *(f"policy.learn.{word}" for word in more)]
        serial_pipeline(pair("ddpg"), seed=3, max_env_step=steps, overrides=overrides)
    assert result(Path("parts"))["envstep"] == 400
    assert not differences(last_state("whole"), last_state("parts"))


def test_goals_in_hindsight_are_normalised_as_desired_goals_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn, learned = list[Any](), list[Any]()
    gather, forward = HindsightView.gather, SACPolicy._forward_learn

    def watch_gather(self: Any, *args: Any) -> Any:
        drawn.append(gather(self, *args))
        return drawn[-1]

    def watch_forward(self: Any, batch: Any) -> Any:
        raw = drawn[-1]
        for key in ("obs", "next_obs"):
            expected = self.normalizer.normalize_obs(raw[key])["desired_goal"]
            assert torch.equal(batch[key]["desired_goal"], expected)
            learned.append((batch["goal_index"] >= 0).any() and not torch.equal(expected, raw[key]["desired_goal"]))
        return forward(self, batch)

    monkeypatch.setattr(HindsightView, "gather", watch_gather)
    monkeypatch.setattr(SACPolicy, "_forward_learn", watch_forward)
    words = ["env.norm_obs=True", "policy.learn.update_per_collect=1"]
    serial_pipeline(pair(), seed=0, max_train_iter=20, overrides=words)
    assert sum(learned) > 20


def learn_all(cfg: EasyDict, block: dict[str, Any]) -> Tensor:
    """Learn from each step of this rank's replay once, with the last goal of its episode; return the parameters."""
    columns = parity.UNEVEN[get_world_size()][get_rank()]
    policy = parity.create_policy(cfg)
    buffer = create_buffer(parity.NUM_STEPS, len(columns), her_strategy="final", her_replay_k=10**9, nstep=2)
    buffer.push(parity.take_columns(block, columns))
    drawn = buffer.sampler.draw(buffer.ring, buffer.ring.starts(2), 5000)
    index, first = np.unique(drawn["index"], return_index=True)
    assert len(index) == buffer.count()
    batch = buffer.view.gather(buffer.ring, {key: value[first] for key, value in drawn.items()})
    policy.weigh(len(columns) * get_world_size() / parity.NUM_ENVS)
    policy.learn(policy._to_device(batch))
    return policy._optimizers["critic"].flat.parameter.detach().clone()


def test_two_ranks_take_the_step_of_one_process_with_the_joined_buffer() -> None:
    main, create = pair("ddpg")
    cfg = compile_config((main, create), overrides=["policy.multi_gpu=True", "policy.nstep=2"])
    set_shapes(cfg, check_env(cfg.env))
    block = LineHistory(parity.NUM_ENVS).play(parity.NUM_STEPS)
    block["obs"] = {key: value / 100 for key, value in block["obs"].items()}
    one, *ranks = learn_all(cfg, block), *call_on_ranks(learn_all, cfg, block)
    for rank in ranks:
        torch.testing.assert_close(rank, one, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_run_of_two_ranks_goes_on_with_one(tmp_path: Path) -> None:
    Path(tmp_path, "config.py").write_text(CONFIG)
    train = ["train", "-c", "config.py", "-s", "0", "--divide", "--nproc", "2", "max_env_step=160"]
    for words in (train, ["resume", "run", "--nproc", "1", "max_env_step=320"]):
        done = finish(start([sys.executable, "-m", "ding_lite", *words], {"PYTHONPATH": str(ROOT)}, tmp_path), 100)
        assert done.returncode == 0, done.stderr
    assert result(tmp_path / "run")["envstep"] == 320
