"""DQN's loss and step, with numbers by hand; one process and two take the same step.

The ranks run this file as `python -m tests.policy.value.test_dqn FOLDER`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import DQN, NoisyLinear
from ding_lite.policy import DQNPolicy
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.ranks import get_rank
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY, ConfigError
from tests.distributed.launcher import run_ranks
from tests.policy.helpers import ACTIONS, OBS, last_gradient, make_batch, make_cfg, make_policy, same, target_of


class Table(nn.Module):
    """Q-values written down: `[S, A]`, for one-hot observations."""

    def __init__(self, values: list[list[float]]) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {"logit": obs @ self.q}


ONLINE = [[1.0, 2.0, 3.0], [4.0, 0.0, 2.0]]
TARGET = [[0.0, 5.0, 1.0], [1.0, 2.0, 8.0]]


def table_policy(*overrides: str) -> DQNPolicy:
    policy = make_policy(*overrides, model=Table(ONLINE))
    target_of(policy)["q"].copy_(torch.tensor(TARGET))
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """One step from state 0 by action 1 to state 1, and one from state 1 by action 2 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([1, 2]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.9, 0.9]),
        **more,
    }


# Double: the online argmax in state 1 is action 0, worth 1 to the target: 1 + 0.9 * 1 = 1.9 against Q = 2.
# Not double: the target's own maximum is 8: 1 + 0.9 * 8 = 8.2 against 2. The terminal step: -1 against Q = 2.
TD = {True: (-0.1, -3.0), False: (6.2, -3.0)}


WEIGHED = ("priority=True", "priority_IS_weight=True")


@pytest.mark.parametrize("double", [True, False])
def test_loss_by_hand(double: bool) -> None:
    policy = table_policy(f"double={double}")
    loss, output = policy.loss(table_batch())
    first, second = TD[double]
    assert loss.item() == pytest.approx((first**2 + second**2) / 2, rel=1e-5)
    assert output["priority"].tolist() == pytest.approx([abs(first), abs(second)], rel=1e-5)
    assert output["q_value"].mean().item() == pytest.approx(2.0)  # 12 / 6


@pytest.mark.parametrize("double", [True, False])
def test_importance_weights_enter_every_branch(double: bool) -> None:
    policy = table_policy(f"double={double}", *WEIGHED)
    loss, output = policy.loss(table_batch(weight=torch.tensor([0.5, 2.0])))
    first, second = TD[double]
    assert loss.item() == pytest.approx((0.5 * first**2 + 2 * second**2) / 2, rel=1e-5)
    assert output["priority"].tolist() == pytest.approx([abs(first), abs(second)], rel=1e-5)  # unweighed


def test_priorities_alone_do_not_weigh_the_loss() -> None:
    weighed, _ = table_policy("priority=True").loss(table_batch(weight=torch.tensor([0.5, 2.0])))
    plain, _ = table_policy().loss(table_batch())
    assert weighed.item() == plain.item()


def test_weights_of_one_change_nothing() -> None:
    plain, _ = table_policy().loss(table_batch())
    weighed, _ = table_policy(*WEIGHED).loss(table_batch(weight=torch.ones(2)))
    assert torch.equal(plain, weighed)


def test_a_truncated_step_bootstraps_by_the_discount_of_the_steps_taken() -> None:
    batch = table_batch(value_gamma=torch.tensor([0.5, 0.9]))
    _, output = table_policy().loss(batch)
    assert output["priority"][0].item() == pytest.approx(2 - (1 + 0.5 * 1), rel=1e-5)


def test_the_gradient_is_that_of_the_chosen_actions_alone() -> None:
    policy = table_policy()
    output = policy.learn(table_batch())
    # d/dq of the mean of (q - target)^2: 2 * 0.1 / 2 in state 0, action 1, and 2 * 3 / 2 in state 1, action 2
    torch.testing.assert_close(policy.model.q.grad, torch.tensor([[0, 0.1, 0], [0, 0, 3.0]]))
    assert output["grad_norm"].item() == pytest.approx(math.hypot(0.1, 3.0), rel=1e-5)
    assert output["total_loss"].item() == pytest.approx((0.01 + 9) / 2, rel=1e-5)
    # Adam's first step is the learning rate against the gradient's sign
    expected = torch.tensor(ONLINE) - 0.001 * torch.tensor([[0.0, 1, 0], [0, 0, 1]])
    torch.testing.assert_close(policy.model.q.data, expected, atol=1e-6, rtol=0)
    assert not any(value.requires_grad for value in output.values())
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)


# -- target network ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freq", [1, 3])
def test_target_update_freq_says_when_the_target_is_copied(freq: int) -> None:
    policy = make_policy(f"learn.target_update_freq={freq}")
    target = [p.clone() for p in target_of(policy).values()]
    for iteration in range(1, 7):
        policy.learn(make_batch(8, iteration))
        if iteration % freq == 0:
            target = [p.clone() for p in policy.model.parameters()]
        assert same(list(target_of(policy).values()), target)
        assert iteration % freq == 0 or not same(target, list(policy.model.parameters()))


@pytest.mark.parametrize("theta", [0.05, 0.5])
def test_target_theta_mixes_that_share_in_at_every_iteration(theta: float) -> None:
    policy = make_policy(f"learn.target_theta={theta}")
    for iteration in range(3):
        before = [p.clone() for p in target_of(policy).values()]
        policy.learn(make_batch(8, iteration))
        for old, new, online in zip(before, target_of(policy).values(), policy.model.parameters(), strict=True):
            torch.testing.assert_close(new, (1 - theta) * old + theta * online, atol=1e-7, rtol=1e-6)


def test_the_target_network_gets_no_gradient_and_no_new_tensors() -> None:
    policy = make_policy("learn.target_update_freq=1")
    addresses = [p.data_ptr() for p in policy._target_model.parameters()]
    policy.learn(make_batch(8))
    assert all(p.grad is None or not p.grad.any() for p in policy._target_model.parameters())
    assert not any(p.requires_grad for p in policy._target_model.parameters())
    assert addresses == [p.data_ptr() for p in policy._target_model.parameters()]


# -- exploration ------------------------------------------------------------------------------------------------------


def test_epsilon_is_drawn_for_each_environment() -> None:
    policy = make_policy()
    obs = torch.randn(OBS).repeat(6000, 1).numpy()
    torch.manual_seed(0)
    counts = Counter(policy.act(obs, eps=0.5)["action"].tolist())
    greedy = policy.act(obs[:1], explore=False)["action"].item()
    # greedy: 0.5 + 0.5 / 3 of 6,000 is 4,000 (standard deviation 37); each other action 1,000 (29)
    assert counts.pop(greedy) == pytest.approx(4000, abs=180)
    assert [count == pytest.approx(1000, abs=150) for count in counts.values()] == [True] * (ACTIONS - 1)


@pytest.mark.parametrize("kind", ["dqn", "c51", "bdq", "r2d2"])
def test_epsilon_may_be_spread_over_the_environments(kind: str) -> None:
    policy = make_policy("other.eps.spread=2", kind=kind)
    obs = torch.randn(OBS).repeat(3, 1).numpy()
    torch.manual_seed(0)
    policy.reset(explore=False)
    greedy = policy.act(obs, explore=False)["action"]
    random_N = torch.zeros(3)
    for _ in range(3000):
        policy.reset()
        random_N += policy.act(obs, eps=0.8)["action"] != greedy
    # 0.8, 0.8^2 and 0.8^3, of which one in ACTIONS is greedy; standard deviation at most 0.01
    expected = torch.tensor([0.8, 0.64, 0.512]) * (1 - 1 / ACTIONS)
    torch.testing.assert_close(random_N / 3000, expected, atol=0.04, rtol=0)


def test_epsilon_falls_with_the_global_env_step() -> None:
    policy = make_policy("other.eps.type=linear", "other.eps.start=1.0", "other.eps.end=0.2", "other.eps.decay=100")
    eps = [policy.begin_collect(step)["eps"] for step in (0, 50, 100, 1000)]
    assert eps == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_a_noisy_net_explores_by_itself_and_is_judged_without_noise() -> None:
    policy = make_policy("noisy_net=True")
    obs = torch.randn(4, OBS).numpy()
    assert policy.begin_collect(0) == {"eps": 0.0}
    logits = [policy.act(obs, eps=0.0)["logit"] for _ in range(2)]
    assert not torch.equal(*logits)
    calm = [policy.act(obs, explore=False)["logit"] for _ in range(2)]
    assert torch.equal(*calm)
    assert not torch.equal(logits[0], policy.act(obs)["logit"])  # evaluating did not switch it off
    sigma = [p.clone() for name, p in policy.model.named_parameters() if "sigma" in name]
    policy.learn(make_batch(16))
    assert sigma
    assert not same(sigma, [p for name, p in policy.model.named_parameters() if "sigma" in name])


class Plain(nn.Module):
    """A model of the user's, without noisy layers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(OBS, ACTIONS)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {"logit": self.linear(obs)}


def test_noisy_net_is_refused_with_a_model_that_has_no_noisy_layers() -> None:
    with pytest.raises(ConfigError, match=r"policy\.noisy_net=True .* the model Plain has none"):
        make_policy("noisy_net=True", model=Plain())
    make_policy("noisy_net=True", model=DQN(OBS, ACTIONS, [16, 8], noise=True))


@MODEL_REGISTRY.register("q_without_noise")
class RegisteredPlain(Plain):
    """A registered model of the user's whose arguments do not include `noise`."""

    def __init__(self, obs_shape: int, action_shape: int, encoder_hidden_size_list: Sequence[int]) -> None:
        super().__init__()


@MODEL_REGISTRY.register("q_always_noisy")
class RegisteredNoisy(RegisteredPlain):
    """The same with a noisy layer."""

    def __init__(self, obs_shape: int, action_shape: int, encoder_hidden_size_list: Sequence[int]) -> None:
        super().__init__(obs_shape, action_shape, encoder_hidden_size_list)
        self.linear = NoisyLinear(obs_shape, action_shape)  # type: ignore[assignment]


def test_noisy_net_needs_a_registered_model_with_noisy_layers_but_no_argument_noise() -> None:
    with pytest.raises(ConfigError, match=r"the model RegisteredPlain has none: use them .*noisy_net=False\.$"):
        make_policy("noisy_net=True", "model.type=q_without_noise")
    policy = make_policy("noisy_net=True", "model.type=q_always_noisy")
    obs = torch.randn(4, OBS).numpy()
    logits = [policy.act(obs)["logit"] for _ in range(2)]
    assert not torch.equal(*logits)


def test_the_noise_of_a_step_comes_with_the_batch() -> None:
    policy = make_policy("noisy_net=True")
    batch: dict[str, Any] = {**make_batch(8)}
    batch["noise"] = policy._draw_noise(batch)
    losses = [policy.loss(batch)[0].item() for _ in range(2)]
    assert losses[0] == losses[1]
    batch["noise"] = policy._draw_noise(batch)
    assert policy.loss(batch)[0].item() != losses[0]


def test_epsilon_and_learning_rate_are_logged() -> None:
    policy = make_policy("other.eps.type=linear", "other.eps.start=1.0", "other.eps.end=0.0", "other.eps.decay=100")
    assert {"epsilon", "learning_rate"} <= set(policy.monitor_vars())
    for step, epsilon in ((0, 1.0), (25, 0.75), (1000, 0.0)):
        policy.begin_collect(step)
        output = policy.learn(make_batch(8))
        assert output["epsilon"].item() == pytest.approx(epsilon)
        assert output["learning_rate"].item() == pytest.approx(make_cfg().learn.learning_rate)


# -- the step ---------------------------------------------------------------------------------------------------------


def gradient_of(*overrides: str) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(0)
    policy = make_policy(*overrides)
    output = policy.learn(make_batch(32))
    return last_gradient(policy), output


def test_clipping_by_norm_keeps_the_direction() -> None:
    free, _ = gradient_of()
    clipped, output = gradient_of("learn.grad_clip_type=clip_norm", "learn.grad_clip_value=0.25")
    assert free.norm() > 1
    assert clipped.norm().item() == pytest.approx(0.25, rel=1e-4)
    torch.testing.assert_close(clipped / clipped.norm(), free / free.norm())
    assert output["grad_norm"].item() == pytest.approx(free.norm().item(), rel=1e-5)  # as it was before
    small, _ = gradient_of("learn.grad_clip_type=clip_norm", "learn.grad_clip_value=1e6")
    assert torch.equal(small, free)


def test_clipping_by_value_bounds_each_entry() -> None:
    free, _ = gradient_of()
    clipped, _ = gradient_of("learn.grad_clip_type=clip_value", "learn.grad_clip_value=0.1")
    assert free.abs().max() > 0.1
    torch.testing.assert_close(clipped, free.clamp(-0.1, 0.1))


@pytest.mark.parametrize("image", [False, True])
def test_bf16_computes_coarsely_and_keeps_parameters_in_float32(image: bool) -> None:
    results = []
    for precision in ("float32", "bf16"):
        torch.manual_seed(0)
        policy = make_policy(f"precision={precision}", image=image)
        output = policy.learn(make_batch(16, image=image))
        assert {p.dtype for p in policy.model.parameters()} == {torch.float32}
        assert output["priority"].dtype == torch.float32
        obs = make_batch(4, image=image)["obs"].numpy()
        assert policy.act(obs, eps=0.1)["action"].shape == (4,)
        results.append((output["total_loss"].item(), last_gradient(policy)))
    (loss, grad), (coarse_loss, coarse_grad) = results
    assert coarse_loss != loss
    assert coarse_loss == pytest.approx(loss, rel=0.05)  # bf16 has 8 bits
    assert torch.cosine_similarity(grad, coarse_grad, dim=0) > 0.98


@pytest.mark.parametrize("call", ["_loss", "_forward_learn"])
def test_the_batch_is_left_as_it_was(call: str) -> None:
    policy, batch = make_policy(), make_batch(8, weighed=True)
    before = {key: value.clone() for key, value in batch.items()}
    getattr(policy, call)(batch)
    assert batch.keys() == before.keys()
    assert all(torch.equal(batch[key], before[key]) for key in batch)


def test_the_loss_is_pure() -> None:
    policy, batch = make_policy(), make_batch(8)
    state = {key: value.clone() for key, value in policy.model.state_dict().items()}
    losses = [policy.loss(batch)[0] for _ in range(2)]
    assert torch.equal(*losses)
    assert all(torch.equal(value, state[key]) for key, value in policy.model.state_dict().items())


def test_evaluations_may_act_with_a_small_epsilon_that_changes_no_other_random_number() -> None:
    obs, state = torch.randn(1000, OBS, generator=torch.Generator().manual_seed(0)), torch.get_rng_state()
    greedy, half = make_policy(), make_policy("eval.eps=0.5")
    half.model.load_state_dict(greedy.model.state_dict())
    torch.set_rng_state(state)
    best_N = greedy.act(obs, explore=False)["action"]
    runs: list[Tensor] = []
    for _ in range(2):
        half.reset(explore=False)  # a new evaluation: the same numbers again
        runs.append(torch.stack([half.act(obs, explore=False)["action"] for _ in range(2)]))
        half.reset(np.array([0]), explore=False)  # an episode has ended
    assert torch.equal(*runs)
    assert not torch.equal(*runs[0])
    # half of the actions are random, and a third of those happen to be the best: 2/3 agree, +- 0.015
    assert float((runs[0][0] == best_N).float().mean()) == pytest.approx(2 / 3, abs=0.05)
    assert torch.equal(torch.get_rng_state(), state)


class AbsoluteDQN(DQNPolicy):
    """Minimises the absolute error; nothing else is overridden."""

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        _, output = super()._loss(batch)
        q_B = self._model(batch["obs"])["logit"].gather(1, batch["action"][:, None]).squeeze(1)
        target_B = (q_B - output["priority"] * 0 - 1).detach()
        return (q_B - target_B).abs().mean(), output


def test_a_subclass_that_overrides_the_loss_alone_is_trained_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICY_REGISTRY, "absolute_dqn", AbsoluteDQN)
    policy = make_policy(model=Table(ONLINE), kind="absolute_dqn")
    output = policy.learn(table_batch())
    torch.testing.assert_close(policy.model.q.grad, torch.tensor([[0, 0.5, 0], [0, 0, 0.5]]))  # sign / B
    assert output["total_loss"].item() == pytest.approx(1.0)


# -- one process and two ----------------------------------------------------------------------------------------------

DOUBLE = torch.float64
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "overlapped": {"overrides": ["bp_update_sync=False"]},
    "images": {"image": True},
    "weighed": {"weighed": True, "overrides": [*WEIGHED]},
    "clip_norm": {"overrides": ["learn.grad_clip_type=clip_norm", "learn.grad_clip_value=0.05"]},
    "clip_value": {"overrides": ["learn.grad_clip_type=clip_value", "learn.grad_clip_value=0.02"]},
    "float64": {"dtype": DOUBLE, "weighed": True, "overrides": [*WEIGHED, "learn.target_theta=0.1"]},
    "float64_clipped": {"dtype": DOUBLE, "overrides": ["learn.grad_clip_type=clip_norm", "learn.grad_clip_value=0.05"]},
}
STEPS, BATCH = 4, 16  # BATCH is what all processes see together


def train(name: str, rank: int = 0, world_size: int = 1) -> dict[str, Tensor]:
    """Take a few steps on this rank's share of the same batches; networks begin differently on each rank."""
    case = CASES[name]
    options = {key: case[key] for key in ("image", "weighed", "dtype") if key in case}
    torch.manual_seed(rank)
    model = DQN(OBS, ACTIONS, [16, 8]).double() if case.get("dtype") == DOUBLE else None
    overrides = [*case.get("overrides", []), "learn.target_update_freq=2", f"multi_gpu={world_size > 1}"]
    if "learn.target_theta=0.1" in overrides:
        overrides.remove("learn.target_update_freq=2")
    policy = make_policy(*overrides, model=model, image=case.get("image", False))
    for step in range(STEPS):
        batch = make_batch(BATCH, step, **options)
        output = policy.learn({key: value[rank::world_size] for key, value in batch.items()})
    state = {f"online.{key}": value for key, value in policy.model.state_dict().items()}
    state |= {f"target.{key}": value for key, value in target_of(policy).items()}
    return {key: value.clone() for key, value in state.items()} | {"grad_norm": output["grad_norm"]}


def rank_main(folder: str) -> None:
    torch.set_num_threads(1)
    with DDPContext(timeout=30):
        result: dict[str, Any] = {name: train(name, get_rank(), 2) for name in CASES}
        try:
            make_policy("multi_gpu=False")
        except ConfigError as error:
            result["refused"] = str(error)
        torch.save(result, f"{folder}/rank{get_rank()}.pt")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    done = run_ranks(["-m", "tests.policy.value.test_dqn", str(folder)], timeout=150)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_take_the_step_of_one_with_the_whole_batch(name: str, two_ranks: list[dict[str, Any]]) -> None:
    expected, tolerance = train(name), 1e-12 if CASES[name].get("dtype") == DOUBLE else 1e-6
    for result in two_ranks:
        assert result[name].keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(
                result[name][key], value, rtol=tolerance, atol=tolerance, msg=partial(operator.add, key)
            )


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_end_with_the_same_bits(name: str, two_ranks: list[dict[str, Any]]) -> None:
    first, second = (result[name] for result in two_ranks)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_two_processes_without_multi_gpu_are_refused(two_ranks: list[dict[str, Any]]) -> None:
    for result in two_ranks:
        assert "policy.multi_gpu=False" in result["refused"]
        assert "set policy.multi_gpu=True" in result["refused"]


if __name__ == "__main__":
    rank_main(next(word for word in sys.argv[1:] if not word.startswith("-")))
