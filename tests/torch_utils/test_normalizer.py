"""Statistics of observations and rewards in one process; several are in tests/distributed/test_normalized_runs.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiBinary

from ding_lite.torch_utils.normalizer import Normalizer

VECTOR = Box(-np.inf, np.inf, (3,), np.float64)
NESTED = Dict(
    image=Box(0, 255, (1, 4, 4), np.uint8),
    body=Dict(joints=Box(-1, 1, (2, 2), np.float32), speed=Box(-1, 1, (), np.float32)),
    action_mask=Box(0, 1, (5,), np.float32),
    flags=MultiBinary(2),
)


def block(
    seed: int, n_step: int, num_envs: int = 2, starts: tuple[tuple[int, int], ...] = (), scale: float = 1.0
) -> dict[str, Any]:
    """Return a rollout block of random observations and rewards whose episodes start at these places `(t, n)`."""
    rng = np.random.default_rng(seed)
    step_TN = np.ones((n_step, num_envs), np.int32)
    for place in starts:
        step_TN[place] = 0
    return {
        "obs": torch.from_numpy(rng.normal(5, scale * np.array([1.0, 10.0, 0.1]), (n_step, num_envs, 3))),
        "reward": torch.from_numpy(rng.normal(1, 2, (n_step, num_envs)).astype(np.float32)),
        "episode_step": torch.from_numpy(step_TN),
        "last_obs": torch.from_numpy(rng.normal(5, 1, (num_envs, 3))),
    }


def returns_by_hand(blocks: list[dict[str, Any]], gamma: float) -> np.ndarray:
    """Return the discounted return after each step of each environment, one number at a time."""
    rows = []
    running = [0.0] * blocks[0]["reward"].shape[1]
    for part in blocks:
        for t in range(len(part["reward"])):
            for n in range(len(running)):
                if part["episode_step"][t, n] == 0:
                    running[n] = 0.0
                running[n] = float(part["reward"][t, n]) + gamma * running[n]
                rows.append(running[n])
    return np.array(rows)


def test_observations_by_hand() -> None:
    normalizer = Normalizer(Box(-np.inf, np.inf, (2,), np.float32), None)
    obs = torch.tensor([[[0.0, 10.0], [4.0, 10.0]]])  # means 2 and 10, variances 4 and 0
    normalizer.update({"obs": obs})
    # (3 - 2) / sqrt(4) = 0.5; 10 is the mean; 12 is (12 - 10) / sqrt(1e-8) = 20000, clipped to 10
    normal = normalizer.normalize_obs(np.array([[3.0, 10.0], [-2.0, 12.0]], np.float32))
    torch.testing.assert_close(normal, torch.tensor([[0.5, 0.0], [-2.0, 10.0]]))


def test_statistics_are_those_of_all_blocks_together() -> None:
    normalizer = Normalizer(VECTOR, 0.9)
    blocks = [block(0, 5, starts=((0, 0), (0, 1), (3, 1))), block(1, 1), block(2, 7, starts=((0, 0), (6, 1)))]
    for part in blocks:
        normalizer.update(part)
    joined = np.concatenate([part["obs"].reshape(-1, 3).numpy() for part in blocks])
    returns = returns_by_hand(blocks, 0.9)
    assert normalizer.obs is not None and normalizer.returns is not None  # noqa: PT018 (for the type checker)
    np.testing.assert_allclose(normalizer.obs.mean, joined.mean(0), rtol=1e-12)
    np.testing.assert_allclose(normalizer.obs.var, joined.var(0), rtol=1e-12)
    assert normalizer.obs.count.tolist() == [26] * 3
    np.testing.assert_allclose(normalizer.returns.mean, returns.mean(), rtol=1e-12)
    np.testing.assert_allclose(normalizer.returns.var, returns.var(), rtol=1e-12)


def test_rewards_are_divided_by_the_deviation_of_the_return_and_not_centred() -> None:
    normalizer = Normalizer(None, 0.5)
    parts = {"reward": torch.tensor([[2.0], [2.0], [3.0]]), "episode_step": torch.tensor([[0], [1], [0]])}
    # R = 2, 2 + 0.5 * 2 = 3, and 3 in a new episode: mean 8 / 3, variance (4 + 9 + 9) / 3 - 64 / 9 = 2 / 9
    seen = normalizer.observe(parts)
    torch.testing.assert_close(seen["reward"], parts["reward"] / (2 / 9) ** 0.5)
    assert seen["reward"].dtype == torch.float32
    assert "obs" not in seen


@pytest.mark.parametrize(("clip", "expected"), [(10.0, 10.0), (2.5, 2.5), (None, 63.3)])
def test_a_first_sparse_reward_is_clipped(clip: float | None, expected: float) -> None:
    normalizer = Normalizer(None, 0.0, clip)
    reward = torch.zeros(4000, 1)
    reward[-1] = -1.0  # the variance is 1 / 4000 - 1 / 4000^2: unclipped, 63.3
    seen = normalizer.observe({"reward": reward, "episode_step": torch.arange(4000).view(-1, 1)})
    assert seen["reward"].min().item() == pytest.approx(-expected, rel=1e-3)
    assert seen["reward"].max() == 0


def test_a_block_is_normalised_by_the_statistics_that_the_policy_acted_with() -> None:
    normalizer, before = Normalizer(VECTOR, 0.9), block(0, 20, starts=((0, 0), (0, 1)))
    normalizer.observe(before)
    part = block(1, 4, scale=3.0) | {"final_obs": torch.ones(1, 3), "final_index": torch.tensor([5])}
    given = {key: value.clone() for key, value in part.items()}
    acted = [normalizer.normalize_obs(row.numpy()) for row in part["obs"]]
    seen = normalizer.observe(part)
    assert torch.equal(seen["obs"], torch.stack(acted))
    mean, std = before["obs"].reshape(-1, 3).mean(0), before["obs"].reshape(-1, 3).std(0, correction=0)
    for key in ("last_obs", "final_obs"):
        torch.testing.assert_close(seen[key], ((part[key] - mean) / std).clamp(-10, 10).float())
    assert normalizer.returns is not None
    torch.testing.assert_close(seen["reward"], (part["reward"] / normalizer.returns.std).float())
    assert all(torch.equal(part[key], value) for key, value in given.items())


def test_only_arrays_of_floats_in_a_dict_are_normalised_and_never_the_mask() -> None:
    normalizer = Normalizer(NESTED, None)
    rng = np.random.default_rng(0)

    def draw(n_step: int) -> dict[str, Any]:
        obs = {
            "image": rng.integers(0, 256, (n_step, 2, 1, 4, 4), np.uint8),
            "body": {
                "joints": rng.normal(3, 2, (n_step, 2, 2, 2)).astype(np.float32),
                "speed": rng.normal(-1, 5, (n_step, 2)).astype(np.float32),
            },
            "action_mask": np.ones((n_step, 2, 5), np.float32),
            "flags": np.zeros((n_step, 2, 2), np.int8),
        }
        return {"obs": {key: as_tensors(value) for key, value in obs.items()}}

    part = draw(50)
    normalizer.update(part)
    seen = normalizer.normalize(part)["obs"]
    for name in ("joints", "speed"):
        leaf = part["obs"]["body"][name].double()
        expected = (leaf - leaf.mean((0, 1))) / leaf.std((0, 1), correction=0)
        torch.testing.assert_close(seen["body"][name], expected.float(), rtol=1e-5, atol=1e-6)
    assert all(seen[key] is part["obs"][key] for key in ("image", "action_mask", "flags"))


def as_tensors(value: Any) -> Any:
    return {key: as_tensors(part) for key, part in value.items()} if isinstance(value, dict) else torch.tensor(value)


def test_a_batch_of_replay_follows_the_newest_statistics() -> None:
    normalizer = Normalizer(VECTOR, 0.9)
    part = block(0, 30, starts=((0, 0), (0, 1)))
    normalizer.update(part)
    batch = {"obs": part["obs"][0].float(), "next_obs": part["obs"][1].float(), "reward": part["reward"][0]}
    first = normalizer.normalize(batch)
    assert set(first) == set(batch)
    assert torch.equal(first["next_obs"], normalizer.normalize_obs(batch["next_obs"]))
    normalizer.update(block(1, 30, scale=5.0))
    assert not torch.equal(normalizer.normalize(batch)["obs"], first["obs"])


def test_saved_and_restored_it_goes_on_as_before() -> None:
    first, second, lost = (Normalizer(VECTOR, 0.9) for _ in range(3))
    first.update(block(0, 6, starts=((0, 0), (0, 1))))
    for other in (second, lost):
        other.load({key: value.clone() for key, value in first.state_dict().items()})
    second.load_local_state_dict(first.local_state_dict())  # the returns of the running episodes, which `lost` lacks
    for normalizer in (first, second, lost):
        normalizer.update(block(1, 3))
    assert all(torch.equal(value, second.state_dict()[key]) for key, value in first.state_dict().items())
    assert not torch.equal(first.state_dict()["returns.mean"], lost.state_dict()["returns.mean"])


def test_the_returns_of_each_actor_run_on_until_its_next_block() -> None:
    several, whole = Normalizer(None, 0.9), Normalizer(None, 0.9)
    blocks = [block(seed, 6, starts=((0, 0), (0, 1))[: seed < 2 and 2]) for seed in range(4)]
    for number, each in enumerate(blocks):  # blocks of the actors 0 and 1 in turn
        several.update(each | {"actor": torch.tensor(number % 2)})
    apart = []
    for first, second in ((0, 2), (1, 3)):
        alone = Normalizer(None, 0.9)
        alone.update(blocks[first])
        alone.update(blocks[second])
        apart.append(alone.local_state_dict()["running_return"])
    torch.testing.assert_close(several.local_state_dict()["running_return"], torch.cat(apart))
    whole.load_local_state_dict(several.local_state_dict())
    assert torch.equal(whole.local_state_dict()["running_return"], torch.cat(apart))


def test_a_data_set_is_read_once() -> None:
    normalizer, parts = Normalizer(VECTOR, None), [block(seed, 9)["obs"].reshape(-1, 3) for seed in range(3)]
    normalizer.fit(iter(parts))
    assert normalizer.obs is not None
    np.testing.assert_allclose(normalizer.obs.mean, torch.cat(parts).mean(0), rtol=1e-12)
    count = normalizer.obs.count.clone()
    normalizer.fit(iter(parts))  # of a resumed run
    assert torch.equal(normalizer.obs.count, count)


def test_what_an_agent_observes_counts_while_it_is_in_the_game() -> None:
    # two agents see 1 and 2, 3 and 4, 5 and 6; the first one leaves after one step, and nobody has a choice in the last
    states, shown = torch.arange(1.0, 7.0).view(3, 1, 2, 1), torch.tensor([[[8.0]], [[8.0]], [[2.0]]])
    mask = torch.tensor([[[1, 1], [1, 1]], [[1, 0], [1, 1]], [[1, 0], [0, 1]]]).unsqueeze(1)
    obs = {"agent_state": states, "global_state": shown, "action_mask": mask}
    space = Dict(agent_state=Box(-9, 9, (2, 1)), global_state=Box(-9, 9, (1,)), action_mask=MultiBinary((2, 2)))
    normalizer = Normalizer(space, None)
    normalizer.update({"obs": obs})
    assert normalizer.obs is not None
    assert normalizer.obs.count.tolist() == [2, 3, 3]
    # (1 + 5) / 2 and (2 + 4 + 6) / 3; (8 + 8 + 2) / 3
    assert normalizer.obs.mean.tolist() == pytest.approx([3, 4, 6])
    assert normalizer.obs.var.tolist() == pytest.approx([4, 8 / 3, 8])
    each = obs | {"global_state": torch.cat([states, states], -1) + 1}  # of each agent
    normalizer = Normalizer(Dict({**space, "global_state": Box(-9, 9, (2, 2))}), None)
    normalizer.update({"obs": each})
    assert normalizer.obs is not None
    assert normalizer.obs.mean.tolist() == pytest.approx([3, 4, 4, 4, 5, 5])
