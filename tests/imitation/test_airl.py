"""AIRL: its logit, reward and penalty by hand; potentials at ends; runs that go on and several ranks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.entry import serial_pipeline_onpolicy
from ding_lite.imitation.adversarial import AdversarialRewardModel
from ding_lite.imitation.airl import AirlRewardModel
from ding_lite.utils import get_rank, get_world_size, load_checkpoint
from ding_lite.utils.tree import tree_map
from tests.distributed.on_ranks import call_on_ranks
from tests.imitation.helpers import build, make_block, pair, write_cartpole_expert, write_expert
from tests.survival.common import differences

ACTION_TN = torch.tensor([[0, 1], [2, 0], [1, 1]])
DONE_TN = torch.tensor([[False, False], [True, False], [False, False]])
LOGP = -math.log(3.0)


class AnyPolicys(AirlRewardModel):
    """Has a policy that need not have a density, and the discount 0.9."""

    def connect(self, *args: Any) -> None:
        AdversarialRewardModel.connect(self, *args)
        self._discount = 0.9


def linear(*weights: float) -> torch.nn.Linear:
    layer = torch.nn.Linear(len(weights), 1, bias=False)
    layer.weight.data = torch.tensor([weights])
    return layer


def create(path: str, **keys: Any) -> Any:
    """Return a model with g = 2 for action 0, else 0, and h(s) = the first number of s."""
    model = build(path, cls=AnyPolicys, **{"batch_size": 4, "update_per_collect": 2, **keys})
    model._reward, model._potential = linear(0.0, 0.0, 2.0, 0.0, 0.0), linear(1.0, 0.0, 0.0, 0.0, 0.0)
    return model


def steps() -> dict[str, Any]:
    """Return two steps from s = 1 to s' = 3, of which the second one ends its episode; actions 0 and 1."""
    obs, after = torch.tensor([[1.0, 5.0]]).expand(2, 2), torch.tensor([[3.0, 5.0]]).expand(2, 2)
    done = torch.tensor([False, True])
    return {"obs": obs, "next_obs": after, "action": torch.eye(3)[[0, 1]], "done": done, "logp": torch.full((2,), LOGP)}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    density = lambda policy, obs, action_M: torch.full((len(action_M),), LOGP)  # noqa: E731 (a function of the test)
    monkeypatch.setattr("ding_lite.imitation.airl.log_density", density)
    return create(write_expert(tmp_path / "expert.npz"), grad_penalty_weight=0.0)


def test_the_logit_is_f_minus_log_pi_and_an_end_has_no_potential(model: Any) -> None:
    f = [2.0 + 0.9 * 3.0 - 1.0, 0.0 + 0.0 - 1.0]
    assert model._f(steps()).tolist() == pytest.approx(f)
    assert model._logits(steps()).tolist() == pytest.approx([each - LOGP for each in f])
    # D = exp f / (exp f + pi) is the sigmoid of the logit
    discriminator = [math.exp(each) / (math.exp(each) + 1 / 3) for each in f]
    assert model._logits(steps()).sigmoid().tolist() == pytest.approx(discriminator)


def test_the_reward_is_log_d_minus_log_of_one_minus_d_or_f_alone(model: Any) -> None:
    d = model._logits(steps()).sigmoid()
    torch.testing.assert_close(model._rewards(steps()), d.log() - (1 - d).log())
    model._cfg.entropy_weight = 0.0  # for an algorithm that adds -log pi itself: not twice
    assert torch.equal(model._rewards(steps()), model._f(steps()))


def test_the_loss_is_a_cross_entropy_and_the_penalty_that_of_a_slope(model: Any) -> None:
    batch = {"own": steps(), "expert": steps(), "place": torch.rand(2, 1)}
    logit_B = model._logits(steps())
    expected = (F.softplus(logit_B).mean() + F.softplus(-logit_B).mean()).item()
    assert model._loss(batch)[0].item() == pytest.approx(expected)
    model._cfg.grad_penalty_weight = 0.5
    loss, figures = model._loss(batch)
    # f = 2 a_0 + 0.9 s'_0 - s_0, so its slope has the norm sqrt(4 + 0.81 + 1)
    assert figures["grad_penalty"].item() == pytest.approx((math.sqrt(5.81) - 1.0) ** 2, rel=1e-5)
    assert loss.item() == pytest.approx(expected + 0.5 * (math.sqrt(5.81) - 1.0) ** 2, rel=1e-5)


def test_a_step_is_followed_by_the_true_last_observation_of_its_episode(model: Any) -> None:
    block = make_block(ACTION_TN, DONE_TN)
    block |= {"final_index": torch.tensor([2]), "final_obs": torch.tensor([[7.0, 7.0]])}
    after = model._steps_of(block)["next_obs"].view(3, 2, 2)
    assert after[1, 0].tolist() == [7.0, 7.0]
    assert torch.equal(after[0], block["obs"][1])
    assert torch.equal(after[2], block["last_obs"])
    expert = model._ready(model._expert)
    assert expert["next_obs"].shape == expert["obs"].shape


def step_on_a_share(path: str, batch: Any) -> list[Any]:
    """Take a step on this rank's share of a batch; return the parameters."""
    model = build(path, cls=AnyPolicys, optimizer="sgd", learning_rate=0.1)
    rank, ranks = get_rank(), get_world_size()
    model._optimizer.step(model._loss, tree_map(lambda leaf: leaf.chunk(ranks)[rank], batch))
    networks = torch.nn.ModuleList([model._reward, model._potential])
    return [parameter.detach().clone() for parameter in networks.parameters()]


def test_two_ranks_take_the_step_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    path = write_expert(tmp_path / "expert.npz")
    own = tree_map(lambda leaf: torch.cat([leaf, leaf * 0]), steps())
    batch = {"own": own, "expert": tree_map(lambda leaf: leaf.flip(0), own), "place": torch.rand(4, 1)}
    whole = step_on_a_share(path, batch)
    for parts in call_on_ranks(step_on_a_share, path, batch, cwd=tmp_path):
        for part, parameter in zip(parts, whole, strict=True):
            torch.testing.assert_close(part, parameter, rtol=1e-4, atol=1e-6)


def train(*words: str, steps: int) -> tuple[int, int]:
    hook = dict(save_ckpt_after_iter=8, log_show_after_iter=10)
    learn = dict(batch_size=16, epoch_per_collect=2, learner=dict(hook=hook))
    policy: dict[str, Any] = dict(type="ppo", multi_gpu=True, num_threads=1, learn=learn, collect=dict(n_sample=32))
    return serial_pipeline_onpolicy(pair("airl", **policy), seed=0, max_train_iter=steps, overrides=words).checksum()


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    write_cartpole_expert()
    train("exp_name=whole", steps=24)
    train("exp_name=parts", steps=12)
    train("exp_name=parts", "policy.learn.resume_training=True", steps=24)
    whole, parts = (load_checkpoint(str(tmp_path / name / "ckpt" / "ckpt_last.pth.tar")) for name in ("whole", "parts"))
    for part in ("policy", "reward_model"):
        assert differences(whole[part], parts[part]) == []


def train_on_ranks() -> tuple[int, int]:
    return train("policy.divide=True", "policy.learn.learner.hook.check_ranks_after_iter=4", steps=16)


@pytest.mark.slow
def test_two_ranks_have_one_reward(tmp_path: Path) -> None:
    write_cartpole_expert(tmp_path / "expert.npz")
    one, other = call_on_ranks(train_on_ranks, timeout=280, cwd=tmp_path)
    assert one == other
