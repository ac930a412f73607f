"""Samples in hindsight have the goals, rewards and ends that a naive record of the episodes gives them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.goals.her import HindsightReplayBuffer
from ding_lite.utils.registry import ConfigError
from ding_lite.worker.replay.state import deal_replay_states
from tests.goals.line import Line, LineHistory, LineOfSingles, create_buffer, to_block
from tests.policy.helpers import same_tree

PUSHES = (5, 7, 1, 6, 9, 13, 20, 4, 3, 17)  # ends before, at and after the end of a ring of 20 rows
ROWS = 20


def check(buffer: HindsightReplayBuffer, history: LineHistory, strategy: str, nstep: int, number: int = 300) -> None:
    """Compare samples with the record; every step of an episode that may give a goal is drawn sooner or later."""
    batch, drawn, possible = buffer.sample(number), set(), set()
    for b in range(number):
        time, n = history.time(int(batch["index"][b]), ROWS)
        place, goal = int(batch["goal_index"][b]), None
        possible |= {(n, u) for u in history.goal_times(time, n, strategy, ROWS)}
        if place >= 0:
            of, env = history.time(place, ROWS)
            assert env == n
            assert of in history.goal_times(time, n, strategy, ROWS)
            drawn.add((n, of))
            goal = history.steps[of][n]["next"]
        expected = history.sample(time, n, nstep, goal)
        first, obs, next_obs = history.steps[time][n], batch["obs"], batch["next_obs"]
        assert obs["desired_goal"][b].item() == (first["goal"] if goal is None else goal)
        assert next_obs["desired_goal"][b].item() == expected["next_goal"]
        assert (obs["achieved_goal"][b].item(), obs["observation"][b].item()) == (first["place"], 2 * first["place"])
        assert next_obs["observation"][b].item() == 2 * expected["next"]
        assert batch["reward"][b].item() == pytest.approx(expected["reward"], abs=1e-4)
        assert batch["done"][b].item() == expected["done"]
        assert batch["value_gamma"][b].item() == expected["value_gamma"]
    assert drawn <= possible
    assert len(drawn) > 0.8 * len(possible)


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_samples_equal_a_naive_record_through_ends_and_wrap_around(strategy: str, nstep: int) -> None:
    history, buffer = LineHistory(num_envs=3), create_buffer(ROWS, 3, her_strategy=strategy, nstep=nstep)
    for n_step in PUSHES:
        buffer.push(history.play(n_step))
        check(buffer, history, strategy, nstep)


def steps(*rows: tuple[float, float, str]) -> dict[str, Any]:
    """Return a block of one environment: the place, the place that follows, and how the step ended."""
    own: dict[str, Any] = dict(goal=9.0, action=[0.0])
    columns = [{**own, "place": place, "next": after, "kind": kind} for place, after, kind in rows]
    for age, step in enumerate(columns):
        kind = step["kind"]
        step |= {"reward": -abs(step["next"] - 9), "done": kind == "fell", "traj_flag": kind != "go", "age": age}
    return to_block([[step] for step in columns])


def by_goal(buffer: HindsightReplayBuffer, place: int) -> dict[float, tuple[float, bool, float]]:
    """Return reward, `done` and the place after the last step of the samples that start here, by their goal."""
    batch = buffer.sample(2000)
    goals, after = batch["obs"]["desired_goal"][:, 0].tolist(), batch["next_obs"]["achieved_goal"][:, 0].tolist()
    rows = zip(batch["index"].tolist(), goals, batch["reward"].tolist(), batch["done"].tolist(), after, strict=True)
    return {goal: (round(reward, 4), done, last) for start, goal, reward, done, last in rows if start == place}


def test_numbers_by_hand() -> None:
    # Places 0, 2, 3, 7, truncated; the goal was 9. The reward is minus the distance, gamma is 1/2.
    block = steps((0.0, 2.0, "go"), (2.0, 3.0, "go"), (3.0, 7.0, "truncated"))
    one, three = create_buffer(8, 1, her_strategy="future"), create_buffer(8, 1, her_strategy="future", nstep=3)
    for buffer in (one, three):
        buffer.push(block)
        buffer.push(steps(*[(50.0 + i, 51.0 + i, "go") for i in range(4)]))
    # One step from 0 to 2: distances to 9, 2, 3, 7; only the goal 2 is the end.
    assert by_goal(one, 0) == {9: (-7, False, 2), 2: (0, True, 2), 3: (-1, False, 2), 7: (-5, False, 2)}
    # The last step, from 3 to 7, was truncated: the value of 7 counts for its own goal, not for 7, which ends there.
    assert by_goal(one, 2) == {9: (-2, False, 7), 7: (0, True, 7)}
    # Three steps. Goal 9: -7 - 6/2 - 2/4 = -10.5. Goal 2 ends at once. Goal 3: -1, then the end. Goal 7: -5 - 4/2 - 0.
    expected = {9: (-10.5, False, 7), 2: (0, True, 2), 3: (-1, True, 3), 7: (-7, True, 7)}
    assert by_goal(three, 0) == expected


def test_a_fall_is_the_end_for_every_goal_and_the_old_goal_only_for_itself() -> None:
    buffer = create_buffer(8, 1, her_strategy="episode")
    buffer.push(steps((0.0, 2.0, "go"), (2.0, 5.0, "fell")))
    reached = steps((20.0, 21.0, "go"), (21.0, 9.0, "fell"), (30.0, 31.0, "go"))  # the second step ended at its goal
    reached["episode_step"][2:] = 0
    buffer.push(reached)
    assert by_goal(buffer, 1) == {9: (-4, True, 5), 2: (-3, True, 5), 5: (0, True, 5)}
    # With the goal 21, the step from 21 to 9 would have gone on.
    assert by_goal(buffer, 3) == {9: (0, True, 9), 21: (-12, False, 9)}


def test_goals_are_replaced_as_often_as_the_key_says() -> None:
    for k, share in ((4, 0.8), (1, 0.5), (0, 0.0)):
        buffer = create_buffer(ROWS, 3, her_replay_k=k)
        buffer.push(LineHistory(3).play(15))
        changed = (buffer.sample(4000)["goal_index"] >= 0).float().mean().item()
        assert changed == pytest.approx(share, abs=0.03)  # four standard deviations of 0.008


def test_a_method_for_single_goals_is_asked_for_each() -> None:
    whole, single = create_buffer(ROWS, 3, nstep=3), create_buffer(ROWS, 3, LineOfSingles, nstep=3)
    block = LineHistory(3).play(18)
    for buffer in (whole, single):
        buffer.push(block)
    assert same_tree(whole.sample(200), single.sample(200))


def test_with_ignore_done_no_goal_is_an_end() -> None:
    buffer = create_buffer(8, 1, her_strategy="final")
    assert buffer.view.ends
    space = Line().observation_space
    buffer.fit(space, None, space, ignore_done=True, create_env=Line)
    buffer.push(steps((0.0, 2.0, "go"), (2.0, 3.0, "truncated"), (3.0, 7.0, "go")))
    assert not buffer.sample(200)["done"].any()


@pytest.mark.parametrize("strategy", ["future", "episode"])
def test_a_buffer_that_goes_on_from_a_state_draws_what_it_would_have_drawn(strategy: str) -> None:
    history, options = LineHistory(3), dict[str, Any](her_strategy=strategy, nstep=2)
    buffer, other = create_buffer(ROWS, 3, **options), create_buffer(ROWS, 3, **options)
    for n_step in (9, 17):
        buffer.push(history.play(n_step))
    buffer.sample(8)
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    for n_step in (4, 12):
        assert same_tree(list(buffer.batches(32, 3)), list(other.batches(32, 3)))
        block = history.play(n_step)
        buffer.push(block)
        other.push(block)
    check(other, history, strategy, 2)


def test_episodes_that_a_resumed_run_gave_up_end_there() -> None:
    history, buffer = LineHistory(3), create_buffer(ROWS, 3)
    buffer.push(history.play(7))
    newest = history.steps[-1][1]
    last_obs = {key: part[1:2] for key, part in to_block(history.steps[-1:])["last_obs"].items()}
    newest["traj_flag"] = True
    buffer.truncate(torch.tensor([1]), last_obs)
    history._age_N[1], history._place_N[1] = 0, history._new_place()
    buffer.push(history.play(6))
    check(buffer, history, "future", 1)


def test_environments_that_are_dealt_to_another_number_of_ranks_keep_their_episodes() -> None:
    history, whole = LineHistory(4), create_buffer(ROWS, 4, her_strategy="episode")
    for n_step in (15, 9):
        whole.push(history.play(n_step))
    state = whole.state_dict()
    for envs in (slice(0, 2), slice(2, 4)):
        part = create_buffer(ROWS, 2, her_strategy="episode")
        rng = np.random.default_rng(5).bit_generator.state
        part.load_state_dict(deal_replay_states([(state, envs)], ROWS, dict(rng)))
        own = LineHistory(2)
        own.steps = [row[envs] for row in history.steps[-ROWS:]]  # in order of time, as they are dealt
        check(part, own, "episode", 1)


def test_replay_stores_no_goal_twice() -> None:
    buffer = create_buffer(ROWS, 3)
    buffer.push(LineHistory(3).play(ROWS))
    columns = {key for key in buffer.ring.columns if key != "obs"}
    assert columns == {"action", "reward", "done", "traj_flag"}
    # One number of 8 bytes for each place says where its episode ends.
    assert buffer.sampler._end.nbytes == 8 * ROWS * 3


def test_frame_stacks_and_estimated_returns_are_refused() -> None:
    for options, what in ((dict(frame_stack=4), "frame stacks"), (dict(next_obs=False), "policies that estimate")):
        with pytest.raises(ConfigError, match=f"type='her' does not support {what}"):
            HindsightReplayBuffer(20, 1, **options)
