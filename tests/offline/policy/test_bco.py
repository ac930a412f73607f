"""BCO: both losses by hand, what it reads of the expert, runs that go on, several ranks, DI-engine's configs."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline, serial_pipeline_bco
from ding_lite.offline.model.bco import BCO
from ding_lite.policy import Policy
from ding_lite.utils import ConfigError, load_checkpoint
from tests.distributed.on_ranks import call_on_ranks
from tests.offline.test_sqil import write_expert
from tests.policy.helpers import Formula, build_policy
from tests.survival.common import differences


class Hand(torch.nn.Module):
    """pi(. | s) has the logits (s, 0); m(. | s, s') has (w (s' - s), 0)."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = Formula(lambda net, obs: {"logit": torch.cat([net.w * obs, 0 * obs], 1)}, w=1.0)
        self.idm = Formula(
            lambda net, obs, next_obs: {"logit": torch.cat([net.w * (next_obs - obs), 0 * obs], 1)}, w=1.0
        )


def hand() -> tuple[Any, dict[str, Any]]:
    batch: dict[str, Any] = {"obs": torch.zeros(1, 1), "next_obs": torch.ones(1, 1), "action": torch.tensor([1])}
    expert = {"obs": torch.tensor([[1.0], [1.0]]), "next_obs": torch.tensor([[3.0], [-1.0]])}
    return build_policy("bco", {}, model=Hand()), batch | {"expert": expert, "noise": {}}


def test_both_losses_are_cross_entropies() -> None:
    policy, batch = hand()
    loss, figures = policy._idm_loss(batch)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(1)))  # own action is 1, of logits (1, 0)
    assert figures["idm_accuracy"].item() == 0.0
    loss, figures = policy._loss(batch)
    # Labels are 0, because 3 > 1, and 1, because -1 < 1; pi has the logits (1, 0) for both.
    assert loss.item() == pytest.approx((math.log(1 + math.exp(-1)) + math.log(1 + math.exp(1))) / 2)
    assert figures["accuracy"].tolist() == [1.0, 0.0]


def test_each_loss_trains_its_own_network() -> None:
    policy, batch = hand()
    policy._loss(batch)[0].backward()
    assert policy.model.policy.w.grad is not None
    assert not policy.model.idm.w.grad  # a label has no gradient
    policy.model.policy.w.grad = None
    policy._idm_loss(batch)[0].backward()
    assert policy.model.policy.w.grad is None
    assert policy.model.idm.w.grad.item() != 0.0


def test_forbidden_actions_are_no_labels() -> None:
    model = BCO({"observation": 4, "action_mask": 3}, 3)
    obs = {"observation": torch.randn(6, 4), "action_mask": torch.tensor([[1, 0, 1]] * 6)}
    logit = model.idm(obs, next_obs=obs)["logit"]
    assert torch.isneginf(logit).tolist() == [[False, True, False]] * 6


def pair(**buffer: Any) -> Any:
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, max_step=30)
    learn = dict(batch_size=16, update_per_collect=4, learner=dict(hook=dict(save_ckpt_after_iter=8)))
    policy: dict[str, Any] = dict(multi_gpu=True, num_threads=1, random_collect_size=40, learn=learn)
    policy |= dict(collect=dict(n_sample=8), model=dict(encoder_hidden_size_list=[8, 8]))
    policy |= dict(other=dict(replay_buffer=dict(type="observations", **{"data_path": "expert.npz", **buffer})))
    return dict(exp_name="run", env=env, policy=policy), dict(policy=dict(type="bco"))


def train(*words: str, steps: int = 20) -> Policy:
    return serial_pipeline(pair(), seed=0, max_train_iter=steps, overrides=words)


def test_what_the_expert_did_is_not_read(tmp_path: Path) -> None:
    write_expert(tmp_path / "expert.npz")
    one = train().checksum()
    columns = dict(np.load("expert.npz"))
    np.savez("expert.npz", obs=columns["obs"], next_obs=columns["next_obs"])
    assert train("exp_name=other").checksum() == one


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    write_expert(tmp_path / "expert.npz")
    train("exp_name=whole", "env.norm_obs=True", steps=40)
    train("exp_name=parts", "env.norm_obs=True", steps=20)
    train("exp_name=parts", "env.norm_obs=True", "policy.learn.resume_training=True", steps=40)
    whole, parts = (load_checkpoint(str(tmp_path / name / "ckpt" / "ckpt_last.pth.tar")) for name in ("whole", "parts"))
    assert differences(whole["policy"], parts["policy"]) == []


def train_on_ranks(*words: str, steps: int = 20) -> tuple[int, int]:
    return train("policy.divide=True", *words, steps=steps).checksum()


@pytest.mark.slow
def test_two_ranks_have_one_policy_and_one_goes_on_with_it(tmp_path: Path) -> None:
    write_expert(tmp_path / "expert.npz")
    one, other = call_on_ranks(train_on_ranks, timeout=280, cwd=tmp_path)
    assert one == other
    train_on_ranks("policy.learn.resume_training=True", steps=40)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("policy.other.replay_buffer.data_path=", "expected a data set with an expert's observations, got none"),
        ("policy.other.replay_buffer.data_path=bare.npz", "Data set 'bare.npz' lacks 'next_obs'"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: str, message: str) -> None:
    write_expert(tmp_path / "expert.npz")
    write_expert(tmp_path / "bare.npz", next_obs=False)
    with pytest.raises(ConfigError) as caught:
        train(words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_di_engines_config_and_pipeline(tmp_path: Path) -> None:
    main, create = pair()
    del main["policy"]["other"], main["policy"]["random_collect_size"]
    main["policy"]["learn"] |= dict(optimizer="SGD", momentum=0.9, lr_decay=True, train_epoch=20, weight_decay=1e-4)
    main["policy"]["model"] |= dict(dueling=True)
    main["policy"]["collect"] = dict(n_episode=10, model_path="abs model path", data_path="abs data path")
    learn = dict(idm_batch_size=32, idm_learning_rate=0.002, idm_weight_decay=1e-4, idm_train_epoch=10)
    model = dict(idm_encoder_hidden_size_list=[60, 40], action_space="discrete")
    main["bco"] = dict(learn=learn, model=model, alpha=0.8)
    create["policy"]["type"] = "bc"
    cfg = compile_config(copy.deepcopy((main, create)))
    assert (cfg.policy.type, cfg.policy.other.replay_buffer.type) == ("bco", "observations")
    assert cfg.policy.other.replay_buffer.data_path == "abs data path"
    assert (cfg.policy.learn.idm_learning_rate, cfg.policy.model.idm_hidden_size_list) == (0.002, [60, 40])
    path = write_expert(tmp_path / "expert.npz")
    assert serial_pipeline_bco((main, create), path, 0, max_train_iter=8).iteration >= 8
