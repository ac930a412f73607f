"""Every sample that the ring gives must equal what a list of whole transitions would have given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ding_lite.worker import PrioritizedReplayBuffer, UniformReplayBuffer

GAMMA = 0.9


class History:
    """N random episodes played step by step, kept naively: whole stacks, true successors, one entry per step.

    With `abnormal` probability a step is one in which the environment fails: the whole episode is then not `valid`.
    """

    def __init__(self, num_envs: int, stack: int, seed: int = 0, abnormal: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_envs, self.stack = num_envs, stack
        self.kind_p = [0.7 - abnormal, 0.1, 0.1, 0.1, abnormal]
        self.frames = 0
        self.obs_N = [self._first() for _ in range(num_envs)]
        self.age_N = [0] * num_envs
        self.steps: list[list[dict]] = []  # [time][env]
        self.running: list[list[dict]] = [[] for _ in range(num_envs)]  # steps of the episodes being played

    def _frame(self) -> np.ndarray:
        self.frames += 1
        return np.full((2, 2), self.frames % 251 + 1, np.uint8)  # never zero, so that padding is told from frames

    def _first(self) -> np.ndarray:
        first = np.zeros((self.stack, 2, 2), np.uint8)
        first[-1] = self._frame()
        return first

    def start(self, n: int) -> None:
        """Start a new episode."""
        self.obs_N[n], self.age_N[n], self.running[n] = self._first(), 0, []

    def play(self, n_step: int) -> dict:
        """Play, remember, and return the rollout block as a collector would."""
        rows = []
        finals, final_index = [], []
        for t in range(n_step):
            row = []
            for n in range(self.num_envs):
                kind = self.rng.choice(["go", "terminated", "truncated", "life", "abnormal"], p=self.kind_p)
                following = np.concatenate([self.obs_N[n][1:], self._frame()[None]])
                step = {
                    "obs": self.obs_N[n],
                    "action": int(self.rng.integers(4)),
                    "reward": np.float32(self.rng.normal()),
                    "done": kind in ("terminated", "life"),
                    "traj_flag": kind != "go",
                    "following": following,
                    "age": self.age_N[n],
                    "valid": True,
                }
                row.append(step)
                self.running[n].append(step)
                self.age_N[n] += 1
                self.obs_N[n] = following
                if kind in ("terminated", "truncated", "abnormal"):
                    finals.append(following)
                    final_index.append(t * self.num_envs + n)
                    for played in self.running[n]:
                        played["valid"] = kind != "abnormal"
                    self.start(n)
            rows.append(row)
        self.steps += rows

        def column(key: str, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(np.array([[step[key] for step in row] for row in rows]), dtype=dtype)

        block = {
            "obs": column("obs", torch.uint8),
            "action": column("action", torch.int64),
            "reward": column("reward", torch.float32),
            "done": column("done", torch.bool),
            "traj_flag": column("traj_flag", torch.bool),
            "episode_step": column("age", torch.int32),
        }
        if self.stack == 1:
            block["obs"] = block["obs"].squeeze(2)
        if finals:
            final_obs = torch.tensor(np.array(finals))
            block["final_obs"] = final_obs.squeeze(1) if self.stack == 1 else final_obs
            block["final_index"] = torch.tensor(final_index)
        if not all(step["valid"] for row in rows for step in row):
            block["valid"] = column("valid", torch.bool)
        last_obs = torch.tensor(np.array(self.obs_N))
        block["last_obs"] = last_obs.squeeze(1) if self.stack == 1 else last_obs
        return block

    def sample(self, time: int, n: int, nstep: int) -> dict:
        """Return the n-step sample that starts at this step, from the naive record."""
        reward = 0.0
        for k in range(nstep):
            step = self.steps[time + k][n]
            reward += GAMMA**k * float(step["reward"])
            if step["traj_flag"]:
                break
        first = self.steps[time][n]
        return {
            "obs": first["obs"],
            "action": first["action"],
            "reward": reward,
            "done": step["done"],
            "next_obs": step["following"],
            "value_gamma": GAMMA ** (k + 1),
        }


def check_all(buffer: UniformReplayBuffer, history: History, nstep: int, num_rows: int, number: int = 400) -> set:
    batch = buffer.sample(number)
    total, seen = len(history.steps), set()
    for b in range(number):
        row, n = divmod(int(batch["index"][b]), history.num_envs)
        time = max(t for t in range(row, total, num_rows))  # the newest step that was written to this row
        seen.add((time, n))
        expected = history.sample(time, n, nstep)
        assert batch["action"][b] == expected["action"]
        assert batch["reward"][b].item() == pytest.approx(expected["reward"], abs=1e-5)
        assert batch["done"][b].item() == expected["done"]
        assert batch["value_gamma"][b].item() == pytest.approx(expected["value_gamma"])
        squeeze = history.stack == 1
        np.testing.assert_array_equal(batch["obs"][b], expected["obs"][0] if squeeze else expected["obs"])
        if not expected["done"]:  # a terminal state's successor has no value
            following = expected["next_obs"]
            np.testing.assert_array_equal(batch["next_obs"][b], following[0] if squeeze else following)
    return seen


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_samples_equal_a_naive_record_through_starts_ends_and_wrap_around(kind, nstep, stack):
    num_envs, num_rows = 3, 20
    history = History(num_envs, stack)
    buffer = kind(
        num_rows * num_envs, num_envs, nstep=nstep, gamma=GAMMA, frame_stack=stack if stack > 1 else 0, seed=1
    )
    for n_step in (5, 7, 1, 6, 9, 13, 20, 4, 3, 17):  # ends before, at and after the ring's end
        buffer.push(history.play(n_step))
        seen = check_all(buffer, history, nstep, num_rows)
        total = len(history.steps)
        oldest = max(0, total - num_rows) + (stack - 1 if total >= num_rows else 0)
        assert {time for time, _ in seen} <= set(range(oldest, total - nstep))
        assert buffer.count() == (total - nstep - oldest) * num_envs


def test_every_step_that_can_be_sampled_is_sampled_evenly():
    history = History(num_envs=2, stack=1)
    buffer = UniformReplayBuffer(20, 2, nstep=1, gamma=GAMMA, seed=0)
    buffer.push(history.play(25 - 15))
    counts = np.bincount(buffer.sample(18_000)["index"].numpy(), minlength=20)
    assert (counts[:18] > 850).all()  # 1,000 expected of each of 9 x 2 places, standard deviation 31
    assert (counts[18:] == 0).all()  # the newest row's successor is to come


def test_batches_are_those_of_single_samples_taken_together():
    buffer = UniformReplayBuffer(40, 2, seed=3)
    buffer.push(History(2, 1).play(15))
    batches = list(buffer.batches(4, number=5))
    assert len(batches) == 5
    assert all(batch["obs"].shape == (4, 2, 2) for batch in batches)
    assert len({tuple(batch["index"].tolist()) for batch in batches}) > 1


def test_a_frame_stack_costs_one_frame_a_step():
    buffer = UniformReplayBuffer(1000, 2, frame_stack=4)
    buffer.push(History(2, 4).play(3))
    assert buffer._ring["obs"].numel() == (1000 + 1) * 2 * 2


def test_the_side_table_of_last_observations_does_not_grow_for_ever():
    history = History(num_envs=4, stack=1)
    buffer = UniformReplayBuffer(80, 4)
    for _ in range(100):
        buffer.push(history.play(5))
    assert len(buffer._final) <= 64  # 80 places, one in ten truncated: 8 expected, doubling from 16


def test_a_buffer_too_small_to_sample_from_says_so():
    with pytest.raises(ValueError, match="too few rows"):
        UniformReplayBuffer(16, 8, nstep=3)
    buffer = UniformReplayBuffer(16, 2)
    with pytest.raises(ValueError, match="9 rows"):
        buffer.push(History(2, 1).play(9))
