"""Random episodes, played into rollout blocks and recorded naively, and what samples of them must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.worker import ReplayBuffer

GAMMA = 0.9


class History:
    """N random episodes played step by step, kept naively: whole stacks, true successors, one entry per step."""

    def __init__(self, num_envs: int, stack: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_envs, self.stack = num_envs, stack
        self.frames = 0
        self.obs_N = [self._first() for _ in range(num_envs)]
        self.age_N = [0] * num_envs
        self.steps: list[list[dict[str, Any]]] = []  # [time][env]

    def _frame(self) -> np.ndarray:
        self.frames += 1
        return np.full((2, 2), self.frames % 251 + 1, np.uint8)  # never zero, so that padding is told from frames

    def _first(self) -> np.ndarray:
        first = np.zeros((self.stack, 2, 2), np.uint8)
        first[-1] = self._frame()
        return first

    def cut(self, n: int) -> torch.Tensor:
        """Give up the running episode of an environment; return the observation that followed it, as `truncate` wants.

        The last step counts as truncated then, unless a trajectory had ended there already.
        """
        self.steps[-1][n]["traj_flag"] = True
        last_obs = self._as_observed([self.obs_N[n]])
        self.obs_N[n], self.age_N[n] = self._first(), 0
        return last_obs

    def play(self, n_step: int) -> dict[str, Any]:
        """Play, remember, and return the rollout block as a collector would."""
        rows, finals, final_index = [], [], []
        for t in range(n_step):
            rows.append([self._step(n) for n in range(self.num_envs)])
            for n, step in enumerate(rows[-1]):
                if step["kind"] in ("terminated", "truncated"):
                    finals.append(step["following"])
                    final_index.append(t * self.num_envs + n)
        self.steps += rows

        def column(key: str, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(np.array([[step[key] for step in row] for row in rows]), dtype=dtype)

        block = {
            "obs": column("obs", torch.uint8) if self.stack > 1 else column("obs", torch.uint8).squeeze(2),
            "action": column("action", torch.int64),
            "reward": column("reward", torch.float32),
            "done": column("done", torch.bool),
            "traj_flag": column("traj_flag", torch.bool),
            "episode_step": column("age", torch.int32),
            "last_obs": self._as_observed(self.obs_N),
        }
        if finals:
            block |= {"final_obs": self._as_observed(finals), "final_index": torch.tensor(final_index)}
        return block

    def _step(self, n: int) -> dict[str, Any]:
        kind = self.rng.choice(["go", "terminated", "truncated", "life"], p=[0.7, 0.1, 0.1, 0.1])
        step = {
            "kind": kind,
            "obs": self.obs_N[n],
            "action": int(self.rng.integers(4)),
            "reward": np.float32(self.rng.normal()),
            "done": kind in ("terminated", "life"),
            "traj_flag": kind != "go",
            "following": np.concatenate([self.obs_N[n][1:], self._frame()[None]]),
            "age": self.age_N[n],
        }
        ended = kind in ("terminated", "truncated")
        self.obs_N[n], self.age_N[n] = (self._first(), 0) if ended else (step["following"], self.age_N[n] + 1)
        return step

    def _as_observed(self, stacks: list[np.ndarray]) -> torch.Tensor:
        obs = torch.tensor(np.array(stacks))
        return obs if self.stack > 1 else obs.squeeze(1)

    def observed(self, stack: np.ndarray) -> np.ndarray:
        """Return a stack as a batch has it."""
        return stack if self.stack > 1 else stack[0]

    def time(self, row: int, num_rows: int) -> int:
        """Return the time of the newest step that was written to a row of the ring."""
        return max(range(row, len(self.steps), num_rows))

    def sample(self, time: int, n: int, nstep: int) -> dict[str, Any]:
        """Return the n-step transition that starts at this step, from the naive record."""
        reward = 0.0
        for k in range(nstep):
            step = self.steps[time + k][n]
            reward += GAMMA**k * float(step["reward"])
            if step["traj_flag"]:
                break
        first = self.steps[time][n]
        same = {"obs": first["obs"], "action": first["action"]}
        last = {"done": step["done"], "next_obs": step["following"], "last": time + k}
        return same | last | {"reward": reward, "value_gamma": GAMMA ** (k + 1)}


def check_transitions(buffer: ReplayBuffer, history: History, nstep: int, number: int = 400) -> set[tuple[int, int]]:
    """Compare samples with the record; return the times and environments that they started at."""
    batch, seen = buffer.sample(number), set()
    for b in range(number):
        row, n = divmod(int(batch["index"][b]), history.num_envs)
        time = history.time(row, buffer.ring.num_rows)
        seen.add((time, n))
        expected = history.sample(time, n, nstep)
        assert batch["action"][b] == expected["action"]
        assert batch["reward"][b].item() == pytest.approx(expected["reward"], abs=1e-5)
        assert batch["done"][b].item() == expected["done"]
        assert batch["value_gamma"][b].item() == pytest.approx(expected["value_gamma"])
        np.testing.assert_array_equal(batch["obs"][b], history.observed(expected["obs"]))
        np.testing.assert_array_equal(batch["next_obs"][b], history.observed(expected["next_obs"]))
    return seen


def check_sequences(buffer: ReplayBuffer, history: History, nstep: int = 1, number: int = 200) -> set[tuple[int, int]]:
    """Compare sequences with the record; return the times and environments that they started at."""
    batch, finals, seen = buffer.sample(number), {}, set()
    span, length = len(batch["obs"]), len(batch["reward"])
    assert (span, length) == (buffer.view.span, buffer.view.span - nstep + 1)
    for b in range(number):
        row, n = divmod(int(batch["index"][b]), history.num_envs)
        time = history.time(row, buffer.ring.num_rows)
        seen.add((time, n))
        for t in range(span):
            step = history.steps[time + t][n]
            np.testing.assert_array_equal(batch["obs"][t, b], history.observed(step["obs"]))
            for key in ("action", "traj_flag"):
                assert batch[key][t, b].item() == step[key]
            assert batch["episode_start"][t, b].item() == (step["age"] == 0)
            if step["traj_flag"] and not step["done"] and t < span - 1:
                finals[t * number + b] = history.observed(step["following"])
        for t in range(length):
            expected = history.sample(time + t, n, nstep)
            assert batch["reward"][t, b].item() == pytest.approx(expected["reward"], abs=1e-5)
            assert batch["done"][t, b].item() == expected["done"]
            assert batch["value_gamma"][t, b].item() == pytest.approx(expected["value_gamma"])
            assert batch["last_step"][t, b].item() == expected["last"] - time
        np.testing.assert_array_equal(batch["last_obs"][b], history.observed(step["following"]))
    assert ("final_index" in batch) == bool(finals)
    if finals:
        assert batch["final_index"].tolist() == sorted(finals)
        np.testing.assert_array_equal(batch["final_obs"], np.stack([finals[place] for place in sorted(finals)]))
    return seen
