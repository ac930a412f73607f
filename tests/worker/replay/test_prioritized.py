from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.worker import PrioritizedReplayBuffer, SumTree
from ding_lite.worker.replay.prioritized import PrefixSums
from tests.worker.replay.history import GAMMA, History, check_sequences


def block(rewards: list[float]) -> dict[str, torch.Tensor]:
    """One environment, no episode ends; the observation is the step's number."""
    n_step = len(rewards)
    return {
        "obs": torch.tensor(rewards).view(n_step, 1, 1),
        "action": torch.zeros(n_step, 1, dtype=torch.int64),
        "reward": torch.tensor(rewards).view(n_step, 1),
        "done": torch.zeros(n_step, 1, dtype=torch.bool),
        "traj_flag": torch.zeros(n_step, 1, dtype=torch.bool),
        "episode_step": torch.tensor(rewards).int().view(n_step, 1),
    }


def filled(number: int, size: int = 20, **options: Any) -> PrioritizedReplayBuffer:
    """Return a buffer with this number of steps; each has its probability, unless `alpha` says another one."""
    buffer = PrioritizedReplayBuffer(size, 1, **{"alpha": 1.0, "seed": 0, **options})
    buffer.push(block([float(step) for step in range(number)]))
    return buffer


def priorities(buffer: PrioritizedReplayBuffer) -> np.ndarray:
    """Return the priorities of all places in use; with alpha 1 they are as they were given."""
    return buffer.state_dict()["sampler"]["priority"].numpy()


@pytest.fixture(params=["tree", "prefix sums"])
def sums(request: pytest.FixtureRequest) -> Any:
    """Eight leaves."""
    return SumTree(8) if request.param == "tree" else PrefixSums(8, torch.device("cpu"))


def test_leaves_are_found_by_running_sum(sums: Any) -> None:
    # running sums 1, 3, 3, 6, 10
    sums[np.array([0, 1, 3, 4])] = sums.array(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    assert float(sums.total) == 10.0
    found = sums.find(np.array([0.0, 0.09, 0.1, 0.29, 0.31, 0.59, 0.6, 0.99, 1.0]))
    assert found.tolist() == [0, 0, 1, 1, 3, 3, 4, 4, 4]


def test_sums_equal_a_plain_sum_after_many_writes(sums: Any) -> None:
    rng, plain = np.random.default_rng(0), np.zeros(8)
    for _ in range(50):
        leaf, value = rng.integers(8, size=4), float(rng.random())
        sums[leaf] = value
        plain[leaf] = value
    assert float(sums.total) == pytest.approx(plain.sum())
    assert sums[np.arange(8)].tolist() == plain.tolist()
    sums.refill(torch.tensor([2.0, 1.0]))
    assert sums.leaves.tolist() == [2.0, 1.0, 0, 0, 0, 0, 0, 0]
    assert float(sums.total) == 3.0


def test_priorities_on_a_gpu_draw_the_same_samples() -> None:
    buffers = [PrioritizedReplayBuffer(64, 1, nstep=1, seed=0) for _ in range(2)]
    sampler: Any = buffers[1].sampler
    sampler._tree = PrefixSums(64, torch.device("cpu"))
    sampler._max_priority = torch.ones((), dtype=torch.float64)
    for part in range(12):
        drawn = []
        for buffer in buffers:
            buffer.push(block([float(8 * part + step) for step in range(8)]))
            drawn.append(buffer.sample(16))
            priority = drawn[-1]["obs"].flatten() % 5 + torch.tensor([0.5, torch.nan]).repeat(8)
            buffer.update(drawn[-1]["index"], priority)
        assert drawn[0]["index"].tolist() == drawn[1]["index"].tolist()
        torch.testing.assert_close(drawn[0]["weight"], drawn[1]["weight"])
    states = [buffer.state_dict()["sampler"] for buffer in buffers]
    torch.testing.assert_close(states[0]["priority"], states[1]["priority"])
    assert states[0]["max_priority"] == pytest.approx(states[1]["max_priority"])


def test_importance_weights_by_hand() -> None:
    # alpha 1: probabilities 1/6, 2/6, 3/6 of three places; (3 P)^-0.5 is 2^0.5, 1, (2/3)^0.5
    buffer = filled(4, 10, beta=0.5)  # the newest has no successor yet
    buffer.update(torch.tensor([0, 1, 2]), torch.tensor([1.0, 2.0, 3.0]))
    batch = buffer.sample(6000)
    counts = np.bincount(batch["index"].numpy(), minlength=4)
    np.testing.assert_allclose(counts / 6000, [1 / 6, 2 / 6, 3 / 6, 0], atol=0.01)
    for place, weight in ((0, 2**0.5), (1, 1.0), (2, (2 / 3) ** 0.5)):
        np.testing.assert_allclose(batch["weight"][batch["index"] == place], weight, rtol=1e-5)


def test_beta_rises_to_one_where_all_samples_count_as_without_priorities() -> None:
    buffer = filled(3, 10, beta=0.0, anneal_step=2)
    buffer.update(torch.tensor([0, 1]), torch.tensor([1.0, 4.0]))
    weights = [buffer.sample(200)["weight"] for _ in range(4)]
    ratios = [float(weight_B.min() / weight_B.max()) for weight_B in weights]
    np.testing.assert_allclose(ratios, [1.0, 0.5, 0.25, 0.25], rtol=1e-5)  # 4^-beta for beta 0, 0.5, 1, 1
    assert weights[-1].mean() == pytest.approx(1.0)


@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-9])
def test_one_sample_does_not_set_the_size_of_all_steps(smallest: float) -> None:
    buffer = filled(100, 200, beta=1.0)
    buffer.update(torch.tensor([0]), torch.tensor([smallest]))
    for batch in buffer.batches(32, 20):  # divided by the largest of the buffer, the weights would be `smallest`
        np.testing.assert_allclose(batch["weight"][batch["index"] != 0], 1.0, rtol=0.02)


def test_large_weights_are_bounded_and_the_mean_of_all_stays() -> None:
    # Priorities 1 and 0.02 of half the places each have the mean 0.51: the weights are 0.51 and 25.5. The second is
    # drawn 0.01 / 0.51 of the times, so 10 instead of 25.5 takes (25.5 - 10) 0.01 / 0.51 = 0.304 from the mean 1.
    buffer = filled(401, 401, beta=1.0)
    priority = torch.tensor([1.0, 0.02]).repeat(200)
    buffer.update(torch.arange(400), priority)
    batches = [buffer.sample(256) for _ in range(800)]
    weight = torch.cat([batch["weight"] for batch in batches[400:]])
    rare = priority[torch.cat([batch["index"] for batch in batches[400:]])] < 1
    assert weight.mean().item() == pytest.approx(1.0, abs=0.02)
    assert weight[~rare].mean().item() == pytest.approx(0.51 / 0.696, rel=0.02)
    assert weight[rare].mean().item() == pytest.approx(10 / 0.696, rel=0.02)
    resumed = PrioritizedReplayBuffer(401, 1, alpha=1.0, beta=1.0, nstep=1, seed=1)
    resumed.load_state_dict(buffer.state_dict())
    assert torch.equal(resumed.sample(256)["weight"], buffer.sample(256)["weight"])


def test_samples_that_are_never_drawn_count_in_the_mean_of_the_weights() -> None:
    # Half the places have the priority 1e-6 instead of 1: one of a million draws finds one of them, with the weight
    # 500,000, and all others have the weight 0.5. With the bound 10 these others make up the whole mean, so it is 1.
    buffer = filled(401, 401, beta=1.0)
    buffer.update(torch.arange(400), torch.tensor([1.0, 0.0]).repeat(200))
    for _ in range(3):
        np.testing.assert_allclose(buffer.sample(64)["weight"], 1.0, rtol=1e-4)


def test_new_steps_enter_with_the_greatest_priority_seen() -> None:
    buffer = filled(3)
    buffer.update(torch.tensor([0]), torch.tensor([7.0]))
    buffer.push(block([3.0]))
    np.testing.assert_allclose(priorities(buffer), [7.0, 1.0, 7.0, 0.0], rtol=1e-5)


def test_priorities_that_are_not_finite_leave_the_old_ones() -> None:
    buffer = filled(4)
    buffer.update(torch.tensor([0, 1, 2]), torch.tensor([2.0, 3.0, 4.0]))
    buffer.update(torch.tensor([0, 1, 2]), torch.tensor([float("nan"), 5.0, float("inf")]))
    np.testing.assert_allclose(priorities(buffer), [2.0, 5.0, 4.0, 0.0], rtol=1e-5)
    buffer.update(torch.tensor([0, 1]), torch.tensor([float("nan")] * 2))
    buffer.push(block([4.0]))  # the step before enters with the greatest finite priority
    np.testing.assert_allclose(priorities(buffer), [2.0, 5.0, 4.0, 5.0, 0.0], rtol=1e-5)


@pytest.mark.parametrize("stack", [1, 4])
def test_sequences_are_drawn_by_priority_through_ends_and_wrap_around(stack: int) -> None:
    history = History(num_envs=3, stack=stack)
    options: dict[str, Any] = {"frame_stack": stack if stack > 1 else 0, "gamma": GAMMA, "seed": 1}
    buffer = PrioritizedReplayBuffer(15, 3, alpha=1.0, unroll_len=4, burnin_step=1, nstep=2, **options)
    for n_step in (7, 1, 6, 9, 13, 20, 4, 3, 17):
        buffer.push(history.play(n_step))
        if not buffer.count():
            continue
        positive = np.flatnonzero(priorities(buffer))
        assert len(positive) == buffer.count()  # exactly the sequences that can be drawn have a priority
        seen = check_sequences(buffer, history, nstep=2)
        batch = buffer.sample(64)
        assert set(batch["index"].tolist()) <= set(positive.tolist())
        assert batch["weight"].shape == (64,)
        # One sequence gets nearly all priority: it is drawn nearly always, until new ones enter with as much.
        chosen = int(positive[len(positive) // 2])
        buffer.update(torch.from_numpy(positive), torch.where(torch.from_numpy(positive) == chosen, 5.0, 1e-6))
        assert (buffer.sample(64)["index"] == chosen).float().mean() > 0.9
        buffer.update(torch.from_numpy(positive), torch.ones(len(positive)))
        assert len(seen) > len(positive) / 4


def test_a_sequences_priority_leaves_with_its_first_row() -> None:
    buffer = PrioritizedReplayBuffer(3, 1, alpha=1.0, unroll_len=2, seed=0)  # 6 rows and the one after
    start = block([float(i) for i in range(6)])
    buffer.push(start | {"last_obs": torch.zeros(1, 1)})
    assert buffer.count() == 5
    buffer.update(torch.tensor([0]), torch.tensor([9.0]))
    assert priorities(buffer)[0] == pytest.approx(9.0)
    buffer.push(block([6.0]) | {"last_obs": torch.zeros(1, 1)})  # what follows is kept in the place of the first row
    assert priorities(buffer).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, pytest.approx(9.0), 0.0]
    assert set(buffer.sample(100)["index"].tolist()) <= {1, 2, 3, 4, 5}


def test_new_priorities_do_not_bring_in_places_where_no_sample_starts() -> None:
    buffer = filled(4)
    buffer.update(torch.arange(4), torch.full((4,), 9.0))
    assert priorities(buffer)[3] == 0.0  # the newest row's successor is to come
