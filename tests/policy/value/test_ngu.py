"""NGU: who plays as which policy, what the network sees when it acts and when it learns, and each discount."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.envs import create_vector_env
from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker import SampleCollector
from tests.policy.test_sequences import build
from tests.policy.value.test_r2d2 import to_double

N, T, POLICIES, ACTIONS = 4, 24, 3, 3


def play() -> tuple[Any, Any, dict[str, Any], list[dict[str, Any]]]:
    """Return config and policy, untrained, a block of episodes of 2 to 8 steps, and what each `act` returned."""
    words = ["num_policies=3", "burnin_step=2", "unroll_len=5", "nstep=3", "discount_factor=0.9"]
    cfg, policy = build("ngu", *(f"policy.{word}" for word in [*words, "min_discount_factor=0.4"]))
    policy.env_place = (1, 8)
    outputs, act = [], policy.act

    def watch(*args: Any, **kwargs: Any) -> Any:
        outputs.append(act(*args, **kwargs))
        return outputs[-1]

    policy.act = watch
    env = create_vector_env(cfg.env, N, 0, True)
    block, _ = SampleCollector(env, policy, T * N, list(range(N))).collect()
    env.close()
    policy.act = act
    return cfg, policy, copy.deepcopy(block), outputs


def sequences(cfg: Any, block: dict[str, Any]) -> dict[str, Any]:
    """Return all sequences of a block."""
    keys = {key: cfg.policy[key] for key in ("unroll_len", "burnin_step", "nstep")}
    replay = BUFFER_REGISTRY.find("uniform")(100, N, gamma=cfg.policy.discount_factor, **keys)
    replay.push(block)
    index = torch.arange(replay.count())
    return tree_map(to_double, replay.view.gather(replay.ring, {"index": index})) | {"index": index}


def test_environments_play_as_the_policies_in_turn_counted_over_all_ranks() -> None:
    _, _, block, _ = play()
    assert block["member"].tolist() == [[1, 2, 0, 1]] * T
    # x = 0, 1/2, 1: 1 - 0.1^(1 - x) 0.6^x
    discount_N = torch.tensor([0.9, 1 - (0.1 * 0.6) ** 0.5, 0.4])
    torch.testing.assert_close(block["discount"], discount_N[block["member"]])


def test_the_network_sees_the_policy_and_the_last_action_and_reward_of_the_episode() -> None:
    _, policy, block, _ = play()
    last_TNC = block["last"]
    assert (block["episode_step"][1:] == 0).any()
    assert policy._memory[True]["last"].shape == (N, ACTIONS + 1)
    for t in range(T):
        for n in range(N):
            expected = [0.0] * (ACTIONS + 1)
            if block["episode_step"][t, n] > 0 and t > 0:
                expected[block["action"][t - 1, n]] = 1.0
                expected[-1] = float(block["reward"][t - 1, n].clamp(-1.0, 1.0))
            assert last_TNC[t, n].tolist() == pytest.approx(expected)


def test_values_of_sequences_are_those_with_which_the_policy_acted() -> None:
    """A batch has for every row, and for what followed it, what the network saw there: the Q-values are the same."""
    cfg, policy, block, outputs = play()
    batch = policy._ready(sequences(cfg, block))
    assert "final_index" in batch
    q_TBA, next_q_TBA = policy._unroll(policy.model, batch)
    acted_TNA = torch.stack([output["logit"] for output in outputs])
    for b, place in enumerate(batch["index"].tolist()):
        first, n = divmod(place, N)
        rows = slice(first + 2, first + 2 + len(q_TBA))  # after 2 rows of burn-in
        torch.testing.assert_close(q_TBA[:, b], acted_TNA[rows, n])
        same_TA = next_q_TBA[:-1, b]  # of the next row, unless an episode starts there
        goes_on_T = ~batch["episode_start"][3:, b]
        torch.testing.assert_close(same_TA[goes_on_T], acted_TNA[rows, n][1:][goes_on_T])


def test_what_follows_the_last_step_of_an_episode_shows_its_action_and_reward() -> None:
    cfg, policy, block, _ = play()
    raw = sequences(cfg, block)
    batch = policy._ready(raw)
    size = len(raw["index"])
    for k, place in enumerate(raw["final_index"].tolist()):
        t, b = divmod(place, size)
        expected = [0.0] * (POLICIES + ACTIONS + 1)
        expected[raw["member"][t, b]] = expected[POLICIES + raw["action"][t, b]] = 1.0
        expected[-1] = float(raw["seen_reward"][t, b].clamp(-1.0, 1.0))
        assert batch["final_obs"]["condition"][k].tolist() == pytest.approx(expected)
    expected_BA = torch.nn.functional.one_hot(raw["action"][-1], ACTIONS).to(batch["last_obs"]["condition"])
    assert torch.equal(batch["last_obs"]["condition"][:, POLICIES:-1], expected_BA)


def test_rewards_are_summed_with_the_discount_of_their_policy() -> None:
    cfg, _, block, _ = play()
    batch = sequences(cfg, block)
    discount_B = batch["discount"][0]
    assert len(discount_B.unique()) == POLICIES
    steps_LB = batch["last_step"] - torch.arange(7)[:, None] + 1
    torch.testing.assert_close(batch["value_gamma"], discount_B**steps_LB, rtol=1e-6, atol=0)
    for b, place in enumerate(batch["index"].tolist()):
        first, n = divmod(place, N)
        for t in range(7):
            rewards = block["reward"][first + t : first + t + int(steps_LB[t, b]), n]
            expected = sum(float(discount_B[b]) ** k * float(reward) for k, reward in enumerate(rewards))
            assert batch["reward"][t, b].item() == pytest.approx(expected, abs=1e-5)


def test_evaluations_play_as_the_first_policy_and_see_true_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    _, policy, _, _ = play()
    seen, forward = [], policy.model.forward

    def watch(obs: Any, **kwargs: Any) -> Any:
        seen.append(obs["condition"][0])
        return forward(obs, **kwargs)

    monkeypatch.setattr(policy.model, "forward", watch)
    obs = np.zeros((2, 4), np.float32)
    policy.reset(explore=False)
    action = policy.act(obs, explore=False)["action"]
    policy.see_reward(np.array([0.25, 7.0]), explore=False)
    policy.act(obs, explore=False)
    policy.reset(np.array([0]), explore=False)
    policy.act(obs, explore=False)
    assert seen[0].tolist() == [[1.0, 0.0, 0.0] + [0.0] * 4] * 2
    assert seen[1][:, :POLICIES].tolist() == [[1.0, 0.0, 0.0]] * 2
    assert seen[1][:, POLICIES:-1].argmax(-1).tolist() == action.tolist()
    assert seen[1][:, -1].tolist() == [0.25, 1.0]
    assert seen[2][0, POLICIES:].tolist() == [0.0] * 4
