"""Two losses on one encoder: equal to plain torch, and to themselves on two processes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.seams.ranks import build, check_two_step_as_one, learn, metrics, sample_batches, train_on_two

NAME = "two_losses"
CLIPPED = ("policy.learn.grad_clip_type=clip_norm", "policy.learn.grad_clip_value=0.01")


def learn_in_plain_torch(batches: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Take the steps that the module describes, with torch alone; return the parameters."""
    cfg, policy = build(NAME)
    learn, model = cfg.policy.learn, copy.deepcopy(policy.model)
    model.requires_grad_(True)
    target = copy.deepcopy(model)
    adam = torch.optim.Adam(model.encoder.parameters(), lr=learn.learning_rate.start)
    rmsprop = torch.optim.RMSprop(model.head.parameters(), lr=learn.learning_rate_head, eps=1e-5)
    sgd = torch.optim.SGD(model.decoder.parameters(), lr=learn.learning_rate_decoder, momentum=0.9)
    for step, batch in enumerate(batches):
        adam.param_groups[0]["lr"] = 0.001 * 0.5 ** (step / 1000)
        features = model.encoder(batch["obs"])
        with torch.no_grad():
            best = model(batch["next_obs"])["logit"].argmax(-1, keepdim=True)
            next_q = target(batch["next_obs"])["logit"].gather(1, best).squeeze(1)
            goal = batch["reward"] + batch["value_gamma"] * torch.where(batch["done"], 0.0, next_q)
        q = model.head(features).gather(1, batch["action"][:, None]).squeeze(1)
        q_loss = (goal - q).square().mean()
        reconstruction_loss = (model.decoder(features) - batch["obs"]).square().mean()
        optimizers = (adam, rmsprop, sgd)
        for optimizer in optimizers:
            optimizer.zero_grad()
        (q_loss + learn.reconstruction_weight * reconstruction_loss).backward()
        for optimizer in optimizers:
            optimizer.step()
        if (step + 1) % learn.target_update_freq == 0:
            target.load_state_dict(model.state_dict())
    return {key: value.detach() for key, value in model.state_dict().items()}


def test_its_steps_are_those_of_plain_torch() -> None:
    batches = sample_batches(NAME, 7, 32)
    expected = learn_in_plain_torch(batches)
    learned: dict[str, Any] = learn(NAME, batches)["model"]
    for key, value in expected.items():
        torch.testing.assert_close(learned[key], value, rtol=0, atol=1e-10)


def test_each_part_has_its_own_optimizer_rate_and_bound() -> None:
    (batch,) = sample_batches(NAME, 1, 32)
    _, policy = build(NAME, *CLIPPED)
    before = copy.deepcopy(policy.model.decoder.state_dict())
    figures = policy.learn(batch)
    rates = {key: float(value) for key, value in figures.items() if key.endswith("_learning_rate")}
    assert rates == {"encoder_learning_rate": 0.001, "head_learning_rate": 0.002, "decoder_learning_rate": 0.05}
    moved = sum((value - before[key]).square().sum() for key, value in policy.model.decoder.state_dict().items())
    # SGD's first step is the rate times the gradient, whose norm the bound has cut to 0.01.
    torch.testing.assert_close(float(moved) ** 0.5, 0.05 * 0.01, rtol=1e-3, atol=0)


def test_two_processes_step_as_one(tmp_path: Path) -> None:
    check_two_step_as_one(NAME, tmp_path, *CLIPPED)


def test_it_trains_on_two_processes(tmp_path: Path) -> None:
    train_on_two(NAME, tmp_path)
    last = [record for record in metrics(tmp_path) if "train/reconstruction_loss" in record][-1]
    assert last["train/q_loss"] > 0
    assert 0 < last["train/reconstruction_loss"] < 1
