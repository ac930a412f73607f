"""Guided cost learning: its loss and rewards by hand, several ranks, runs that go on, DI-engine's names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline_guided_cost, serial_pipeline_onpolicy
from ding_lite.imitation.adversarial import AdversarialRewardModel
from ding_lite.imitation.guided_cost import GuidedCostRewardModel
from ding_lite.run.pipelines import MODES
from ding_lite.utils import get_rank, get_world_size, load_checkpoint
from ding_lite.utils.tree import tree_map
from ding_lite.worker import UniformReplayBuffer
from tests.distributed.on_ranks import call_on_ranks
from tests.imitation.helpers import build, make_block, pair, write_cartpole_expert, write_expert
from tests.survival.common import differences

ACTION_TN = torch.tensor([[0, 1], [2, 0], [1, 1]])
GENERATOR = torch.Generator()


class Uniform(GuidedCostRewardModel):
    """Learns from a policy that plays each of three actions with the probability 1/3."""

    def connect(self, *args: Any) -> None:
        AdversarialRewardModel.connect(self, *args)

    def _samples(self, steps: Any) -> dict[str, Any]:
        return {**steps, "logp": torch.full((len(steps["action"]),), -math.log(3.0))}


def create(path: str, replay: Any = None, **keys: Any) -> Any:
    return build(path, replay, cls=Uniform, **{"batch_size": 4, "update_per_collect": 3, **keys})


@pytest.fixture
def model(tmp_path: Path) -> Any:
    return create(write_expert(tmp_path / "expert.npz"))


def linear(model: Any, *weights: float) -> Any:
    """Return the model with -c(x) = weights . x."""
    model._head = torch.nn.Linear(len(weights), 1)
    model._head.weight.data, model._head.bias.data = torch.tensor([weights]), torch.zeros(1)
    return model


def batch_of(own: float, expert: float, own_logp: float, expert_logp: float) -> dict[str, Any]:
    def side(x: float, logp: float) -> dict[str, Any]:
        return {"obs": torch.tensor([[x, 0.0]]), "action": torch.zeros(1, 3), "logp": torch.tensor([logp])}

    return {"own": side(own, own_logp), "expert": side(expert, expert_logp)}


def test_the_loss_is_the_cost_of_the_expert_and_the_log_of_weighted_samples(model: Any) -> None:
    """-c is 2 times the first number: 2 of the own step, 4 of the expert's; their densities are 1/2 and 1/4."""
    linear(model, 2.0, 0.0, 0.0, 0.0, 0.0)
    batch = model._complete(batch_of(1.0, 2.0, math.log(0.5), math.log(0.25)), GENERATOR)
    loss, figures = model._loss(batch)
    own, expert = 2 * math.exp(2.0), 4 * math.exp(4.0)
    assert loss.item() == pytest.approx(-4.0 + math.log((own + expert) / 2), rel=1e-5)
    assert (figures["policy_cost"].item(), figures["expert_cost"].item()) == (-2.0, -4.0)
    (slope,) = torch.autograd.grad(loss, model._head.weight)
    # d/dw of -2 w + log (2 e^w + 4 e^2w) / 2 at w = 2
    assert slope[0, 0].item() == pytest.approx(-2.0 + (own + 2 * expert) / (own + expert), rel=1e-4)


def test_a_constant_does_not_matter_and_large_costs_do_not_overflow(model: Any) -> None:
    linear(model, 2.0, 0.0, 0.0, 0.0, 0.0)
    plain, _ = model._loss(model._complete(batch_of(1.0, 2.0, -1.0, -3.0), GENERATOR))
    model._head.bias.data += 5.0
    shifted, _ = model._loss(model._complete(batch_of(1.0, 2.0, -1.0, -3.0), GENERATOR))
    assert shifted.item() == pytest.approx(plain.item(), rel=1e-5)
    far, _ = model._loss(model._complete(batch_of(500.0, -500.0, -16.0, -16.0), GENERATOR))
    assert far.item() == pytest.approx(1000.0 + 1000.0 + 16.0 - math.log(2.0))  # -c are 1000 and -1000


def test_the_experts_mean_cost_is_zero_after_a_collect(model: Any) -> None:
    model.process(make_block(ACTION_TN))
    with torch.no_grad():
        minus_cost_M = model._logits(model._ready(model._expert))
    assert minus_cost_M.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert minus_cost_M.std().item() > 0.0


def test_rewards_are_bounded_or_linear(model: Any) -> None:
    linear(model, 0.0, 0.0, 0.0, math.log(3.0), -math.log(3.0))
    block = make_block(torch.tensor([[0, 1, 2]]))  # -c = 0, log 3, -log 3
    assert model.relabel(block)["reward"].tolist()[0] == pytest.approx([0.5, 0.75, 0.25])
    model._cfg.reward_transform = "linear"
    assert model.relabel(block)["reward"].tolist()[0] == pytest.approx([0.0, math.log(3.0), -math.log(3.0)])


def test_samples_are_those_of_the_collect_also_with_replay(tmp_path: Path) -> None:
    replay: Any = UniformReplayBuffer(64, 2)
    model, block = create(write_expert(tmp_path / "expert.npz"), replay), make_block(ACTION_TN)
    replay.push(block)
    assert model._replayed(GENERATOR) == {}
    assert replay.view.rewards is not None  # those of now


def step_on_a_share(path: str, batch: Any) -> list[Any]:
    """Take a step on this rank's share of a batch; return the parameters."""
    model = create(path, optimizer="sgd", learning_rate=0.1)
    rank, ranks = get_rank(), get_world_size()
    own = tree_map(lambda leaf: leaf.chunk(ranks)[rank], batch)
    figures = model._optimizer.step(model._loss, model._complete(own, GENERATOR))
    assert get_world_size() > 1 or float(figures["discriminator_loss"]) != 0.0
    return [parameter.detach().clone() for parameter in model._head.parameters()]


def test_two_ranks_take_the_step_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    """Half of the samples have nearly all of the weight, so that the mean of both ranks' logarithms is another loss."""
    path, draw = write_expert(tmp_path / "expert.npz"), torch.Generator().manual_seed(0)

    def side() -> dict[str, Any]:
        action = torch.eye(3)[torch.randint(3, (8,), generator=draw)]
        logp = torch.tensor([-8.0] * 4 + [0.0] * 4)
        return {"obs": torch.randn(8, 2, generator=draw), "action": action, "logp": logp}

    batch = {"own": side(), "expert": side()}
    whole = step_on_a_share(path, batch)
    for parts in call_on_ranks(step_on_a_share, path, batch, cwd=tmp_path):
        for part, parameter in zip(parts, whole, strict=True):
            torch.testing.assert_close(part, parameter, rtol=1e-4, atol=1e-6)


def ppo() -> dict[str, Any]:
    hook = dict(save_ckpt_after_iter=8, log_show_after_iter=10)
    learn = dict(batch_size=16, epoch_per_collect=2, learner=dict(hook=hook))
    return dict(type="ppo", multi_gpu=True, num_threads=1, learn=learn, collect=dict(n_sample=32))


def train(*words: str, steps: int) -> tuple[int, int]:
    config = pair("guided_cost", **ppo())
    return serial_pipeline_onpolicy(config, seed=0, max_train_iter=steps, overrides=words).checksum()


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
def test_two_ranks_have_one_cost(tmp_path: Path) -> None:
    write_cartpole_expert(tmp_path / "expert.npz")
    one, other = call_on_ranks(train_on_ranks, timeout=280, cwd=tmp_path)
    assert one == other


def test_di_engines_config_and_pipeline(tmp_path: Path) -> None:
    write_cartpole_expert()
    main, create_config = pair("guided_cost", **ppo())
    main["reward_model"] = dict(learning_rate=1e-3, input_size=5, batch_size=32, continuous=False, update_per_collect=2)
    main["policy"]["collect"] |= dict(model_path="expert.npz", collector_logit=True)
    cfg = compile_config((main, create_config))
    assert (cfg.reward_model.type, cfg.reward_model.data_path) == ("guided_cost", "expert.npz")
    assert serial_pipeline_guided_cost((main, create_config), 0, max_train_iter=8).iteration >= 8
    assert MODES["serial_guided_cost"] == "serial_pipeline_guided_cost"
