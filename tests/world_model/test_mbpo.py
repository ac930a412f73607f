"""MBPO's model: what it learns, what ends its training, which member predicts a step, what a rollout contains."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.utils import get_rank, get_world_size
from ding_lite.world_model import MBPOWorldModel
from tests.distributed.on_ranks import call_on_ranks
from tests.world_model.helpers import EDGE, STEP, trained

LONG = (
    "world_model.model.max_epochs_since_update=20",
    "world_model.model.hidden_size=32",
    "world_model.learning_rate=0.003",
)


def constant(model: MBPOWorldModel, *rewards: float) -> MBPOWorldModel:
    """Return the model with members that predict these rewards, and no change of the observation."""
    network: Any = model._network
    for parameter in (network.weights[-1], network.biases[-1]):
        parameter.data.zero_()
    network.biases[-1].data[:, 0, 0] = torch.tensor(rewards)
    return model


def test_a_trained_model_imagines_what_the_environment_does() -> None:
    """x' = x + 0.2 a, r = -x^2, and the other number stays. An error of standardised targets would be a factor of 5."""
    model = trained(*LONG, "policy.random_collect_size=600", max_env_step=608)
    steps = model._imagination.steps
    x, action = steps["obs"][:, 0], steps["action"][:, 0]
    torch.testing.assert_close(steps["next_obs"][:, 0], x + STEP * action, atol=0.04, rtol=0)
    torch.testing.assert_close(steps["next_obs"][:, 1], torch.full_like(x, 3.0), atol=0.02, rtol=0)
    torch.testing.assert_close(steps["reward"], -x.square(), atol=0.1, rtol=0)
    assert torch.equal(steps["done"], steps["next_obs"][:, 0].abs() > EDGE)


def test_a_rollout_ends_at_a_terminal_step_and_not_at_a_time_limit() -> None:
    """Episodes have 12 steps; 30 imagined ones go on. A point that falls has one terminal step, and none after it."""
    model = constant(trained("world_model.rollout_length_scheduler.rollout_length=30"), 0.0, 0.0, 0.0)
    obs = torch.tensor([[0.0, 3.0], [2.0, 3.0]])  # the second is beyond the edge from its first step on
    steps = model._rollouts(obs, 30, envstep=0)
    assert len(steps["reward"]) == 31
    assert steps["done"].tolist() == [False, True] + [False] * 29
    replayed = model._replay.ring.columns
    assert (replayed["traj_flag"] & ~replayed["done"])[: model._replay.ring.places_in_use].any()  # time limits


def test_what_follows_a_terminal_step_is_not_imagined_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second rollout ends at a state that is not finite, from which no network could go on."""
    model, acted = constant(trained(), 0.0, 0.0, 0.0), list[Tensor]()
    model._network.biases[-1].data[:, 0, 1] = torch.inf
    act = model._policy.act

    def watch(obs: Tensor, **kwargs: Any) -> Any:
        acted.append(obs)
        return act(obs, **kwargs)

    monkeypatch.setattr(model._policy, "act", watch)
    steps = model._rollouts(torch.tensor([[0.0, 3.0]]), 4, envstep=0)
    assert steps["done"].tolist() == [True]
    assert torch.stack(acted).isfinite().all()


def test_each_step_is_predicted_by_an_elite_that_is_drawn_anew() -> None:
    model = constant(trained(), 1.0, 2.0, 3.0)
    model._network.elites.copy_(torch.tensor([2, 0]))
    obs, action = torch.zeros(5, 2), torch.zeros(5, 1)
    drawn = torch.stack([model.step(obs, action, torch.rand(5))[0] for _ in range(40)])
    assert {*drawn.flatten().tolist()} == {1.0, 3.0}
    assert {*(drawn == 3.0).sum(1).tolist()} == {3}  # of five samples and one that fills up, each elite has three
    assert (drawn == 3.0).float().mean(0).min() > 0.3  # of 40 draws with probability 3 / 5, at most 12: below 0.0002
    assert len({tuple(row) for row in drawn.tolist()}) > 5
    draw = torch.tensor([0.1, 0.9, 0.2, 0.8, 0.7])
    assert model.step(obs, action, draw)[0].tolist() == [3.0, 1.0, 3.0, 1.0, 3.0]  # the three smallest are the best's


def test_noise_has_the_predicted_deviation() -> None:
    model = constant(trained(), 0.0, 0.0, 0.0)
    obs, action, noise = torch.zeros(5, 2), torch.zeros(5, 1), torch.ones(5, 3)
    logvar = model._network(torch.zeros(1, 1, 3), torch.tensor([0]))[1]
    reward, next_obs, _ = model.step(obs, action, torch.rand(5), noise)
    expected = (0.5 * logvar[0, 0]).exp()
    torch.testing.assert_close(torch.cat([reward[:, None], next_obs], 1), expected.expand(5, 3))


def test_all_members_step_with_observations_of_their_own() -> None:
    model = constant(trained(), 1.0, 2.0, 3.0)
    reward, next_obs, done = model.step_all(torch.arange(6.0).view(3, 1, 2), torch.zeros(3, 1, 1))
    assert reward.tolist() == [[1.0], [2.0], [3.0]]
    assert next_obs.flatten().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert done.flatten().tolist() == [False, True, True]


def test_the_best_parameters_of_each_member_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    measure = MBPOWorldModel._holdout_error

    def watch(self: MBPOWorldModel, network: Any, holdout: Any) -> Tensor:
        seen.append(measure(self, network, holdout))
        return seen[-1]

    model = trained("world_model.learning_rate=0.05")
    monkeypatch.setattr(MBPOWorldModel, "_holdout_error", watch)
    model.train(10**6)
    _, *epochs, last = seen  # before the first epoch, after each, and of what was kept
    assert (last <= torch.stack(epochs).amin(0) / 0.99 + 1e-9).all()
    assert torch.equal(model._network.elites, last.argsort()[:2])


def test_training_ends_after_epochs_without_an_improvement_of_one_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors 1, 0.995, 0.98: the third is 2 % better. Then two epochs wait, and one more ends it: 1 + 2 + 3."""
    model = trained("world_model.model.max_epochs_since_update=2")
    errors = iter([9.0, 1.0, 0.995, 0.98, 0.979, 0.975, 0.99, 0.98])

    def fake(self: MBPOWorldModel, network: Any, holdout: Any) -> Tensor:
        return torch.full((3,), next(errors), dtype=torch.float64)

    monkeypatch.setattr(MBPOWorldModel, "_holdout_error", fake)
    model.take_figures()
    model.train(10**6)
    assert model.take_figures()["epochs"] == 6.0


def test_k_follows_the_env_steps() -> None:
    """From 1 at 20 to 5 at 60: one more every 10 steps, rounded down."""
    words = [f"rollout_{key}" for key in ("start_step=20", "end_step=60", "length_min=1", "length_max=5")]
    prefix = "world_model.rollout_length_scheduler"
    model = trained(f"{prefix}.type=linear", *(f"{prefix}.{word}" for word in words))
    assert [model.rollout_length(step) for step in (0, 20, 29, 30, 59, 60, 10**6)] == [1, 1, 1, 2, 4, 5, 5]


def test_actions_are_the_policys_within_bounds_or_one_hot() -> None:
    model = trained()
    assert model.encode_action(torch.tensor([[0.5], [-3.0]])).tolist() == [[0.5], [-1.0]]
    ring = model._replay.ring
    assert ring.columns["action"][: ring.places_in_use].abs().max() <= 1.0  # the environment's are up to 2
    model = trained(kind="dqn", discrete=True)
    assert model.encode_action(torch.tensor([2, 0])).tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_weight_decay_is_that_of_each_layer() -> None:
    """The five weights are set to 1, of 3 members: 3 inputs, 16 hidden, 2 * 3 outputs."""
    model = trained("world_model.model.use_decay=True")
    for weight in model._network.weights:
        weight.data.fill_(1.0)
    for bias in model._network.biases:
        bias.data.zero_()
    inputs = model._network.scale.mean.float().expand(3, 2, 3)  # standardised they are 0, so that nothing else is large
    batch = {"input": inputs, "target": torch.zeros(3, 2, 3)}
    with_decay = model._loss(batch)[0]
    model._cfg.model.use_decay = False
    counts = [3 * 16, 16 * 16, 16 * 16, 16 * 16, 16 * 6]
    decays = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
    expected = 0.5 * 3 * sum(decay * count for decay, count in zip(decays, counts, strict=True))
    assert (with_decay - model._loss(batch)[0]).item() == pytest.approx(expected, rel=1e-3)


def step_on_parts(sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Learn from all of this rank's part of some data in one batch; return the parameters and the holdout errors."""
    words = ["world_model.model.batch_size=1000", "world_model.optimizer=sgd", "world_model.learning_rate=0.001"]
    model = trained(*words, max_env_step=120)
    model._network.scale.load_state_dict({key: torch.ones(3).double() for key in ("mean", "var", "count")})
    for parameter in model._network.parameters():
        parameter.data.copy_(torch.linspace(-1.0, 1.0, parameter.numel()).view_as(parameter).sin() / 4)
    draw = torch.Generator().manual_seed(0)
    data = {key: torch.randn(sum(sizes), 3, generator=draw) for key in ("input", "target")}
    own_sizes = sizes if get_world_size() > 1 else [sum(sizes)]
    data = {key: part.split(own_sizes)[get_rank()] for key, part in data.items()}
    (batch,) = model._epoch(model._optimizer, data, own_sizes)
    model._network.train()
    model._optimizer.step(model._loss, batch)
    return model._optimizer.flat.parameter.detach().clone(), model._holdout_error(model._network, data)


def test_two_ranks_take_the_step_of_one_process_with_the_joined_data() -> None:
    one, ranks = step_on_parts([5, 3]), call_on_ranks(step_on_parts, [5, 3])
    for rank in ranks:
        for expected, found in zip(one, rank, strict=True):
            torch.testing.assert_close(found, expected.to(found.dtype), rtol=1e-5, atol=1e-7)
