from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.envs import EnvError, check_env, create_vector_env
from ding_lite.envs.masks import WRAPPER
from ding_lite.utils.registry import ConfigError
from tests.envs.test_vector_env import MANAGERS, env_config
from tests.toys import Toy

JOINED = [1, 0, 0, 0, 1]  # of three and two options
MASKED = Dict(seen=Discrete(3), action_mask=MultiBinary(5))


class Game(Toy):
    """Gives a mask in its observations, or by `action_masks()` if it has that, and in `info` if `told`."""

    def __init__(self, actions: gymnasium.Space[Any], mask: Any, space: Any = MASKED, told: Any = None) -> None:
        self.action_space, self.observation_space, self._mask, self._told = actions, space, mask, told or {}

    def observe(self) -> Any:
        if not isinstance(self.observation_space, Dict):
            return 2
        return {"seen": 2, "action_mask": np.array(self._mask)}

    def begin(self) -> Any:
        return self._told

    def play(self, action: Any) -> Any:
        return float(np.sum(action)), False, False, self._told


class Asked(Game):
    """An environment of sb3-contrib's convention."""

    def action_masks(self) -> Any:
        return self._mask


def build(env: gymnasium.Env, manager: str = "base", **options: Any) -> Any:
    cfg = env_config(manager={"type": manager}, **options)
    check_env(cfg, [lambda _: env])
    return create_vector_env(cfg, 2, 0, True, builders=[lambda _: env] * 2)


TWO = MultiDiscrete([3, 2])


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize(
    "env",
    [
        Game(TWO, JOINED),
        Asked(TWO, np.array(JOINED, bool), Discrete(3)),
        Asked(TWO, [np.array([True, False, False]), np.array([False, True])], Discrete(3)),  # a list
        Game(TWO, None, Discrete(3), told={"action_mask": JOINED}),
    ],
    ids=["observation", "method", "list", "info"],
)
def test_a_mask_of_several_choices_has_a_row_for_each_wherever_it_comes_from(env: Game, manager: str) -> None:
    wrappers = [] if isinstance(env.observation_space, Dict) else [WRAPPER]
    vector = build(env, manager, wrappers=wrappers)
    obs, _ = vector.reset(seed=0)
    for _ in range(2):
        assert obs["action_mask"].tolist() == [[[1, 0, 0], [0, 1, 0]]] * 2
        assert obs["seen" if isinstance(env.observation_space, Dict) else "observation"].tolist() == [[0, 0, 1]] * 2
        obs = vector.step(np.array([[0, 1]] * 2))[0]
    vector.close()


ODD = [0.5, 256, 0, -1, 1]
JOINED_BOX = Dict(seen=Discrete(3), action_mask=Box(-256, 256, (5,), np.float32))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (Game(Discrete(5), None, Discrete(3), told={"action_mask": ODD}), [1, 1, 0, 1, 1]),
        (Asked(TWO, [ODD[:3], ODD[3:]], Discrete(3)), [[1, 1, 0], [1, 1, 0]]),
        (Game(TWO, ODD, JOINED_BOX), [[1, 1, 0], [1, 1, 0]]),
    ],
    ids=["info", "list", "observation"],
)
def test_every_number_of_a_mask_but_zero_allows(env: Game, expected: Any) -> None:
    vector = build(env, wrappers=[] if isinstance(env.observation_space, Dict) else [WRAPPER])
    obs = vector.reset(seed=0)[0]
    assert obs["action_mask"].tolist() == [expected] * 2  # as int8, 0.5 and 256 were 0
    vector.close()


@pytest.mark.parametrize("actions", [Discrete(5), Discrete(5, start=3)])
def test_a_mask_of_one_choice_is_unchanged_and_the_other_parts_are_converted(actions: Discrete) -> None:
    spec = check_env(env_config(), [lambda _: Game(actions, JOINED)])
    assert spec.observation_space == Dict(seen=Box(0, 1, (3,), np.float32), action_mask=MultiBinary(5))
    assert spec.notes == ()


@pytest.mark.parametrize(
    ("env", "wrappers", "message"),
    [
        (Game(Discrete(4), JOINED), [], r"action_mask has the shape \[5\]: expected \[4\], a number for each action"),
        (Game(MultiDiscrete([3, 3]), JOINED), [], r"the shape \[5\]: expected \[6\], or \[2, 3\]"),
        (Game(Discrete(5), [0] * 5), [], r"the action_mask \[0, 0, 0, 0, 0\] allows no action, but the episode goes"),
        (Game(TWO, [1, 1, 0, 0, 0]), [], r"the action_mask \[1, 1, 0, 0, 0\] allows no action"),  # in one branch
        (
            Game(Discrete(5), JOINED),
            ["FlattenObservation"],
            "'FlattenObservation' changes or removes the 'action_mask'",
        ),
        (
            Game(Discrete(5), JOINED),
            [dict(name="FrameStackObservation", stack_size=2)],
            "'FrameStackObservation' changes or removes the 'action_mask'",
        ),
        (Game(TWO, [1, np.nan, 1, 1, 1], JOINED_BOX), [], r"the action_mask .*nan.*, expected finite numbers"),
        (
            Asked(Discrete(5), [None] * 5, Discrete(3)),
            [WRAPPER],
            r"the action_mask \[None, .*, expected finite numbers",
        ),
        (Asked(Discrete(5), [], Discrete(3)), [WRAPPER], r"action_mask.* of shape \(0,\), expected \(5,\)"),
        (
            Asked(Discrete(5), torch.ones(5, requires_grad=True), Discrete(3)),
            [WRAPPER],
            r"the action_mask tensor\(.*, expected finite numbers",
        ),
        (Game(Discrete(5), None, Discrete(3)), [WRAPPER], r"neither action_masks\(\) nor info\['action_mask'\]"),
        (
            Game(Dict(action_type=Discrete(5), action_args=Box(-1, 1)), JOINED),
            [],
            r"have an action_mask, but the actions",
        ),
        (Game(Box(-1, 1, (2,)), None, Discrete(3)), [WRAPPER], "expected Discrete or MultiDiscrete actions, got Box"),
    ],
)
def test_a_mask_that_cannot_be_obeyed_is_refused_in_one_line(env: Game, wrappers: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_env(env_config(wrappers=wrappers), [lambda _: env])


@pytest.mark.parametrize("later", [[0] * 5, None])
def test_a_mask_that_fails_during_a_run_ends_it_in_one_line(later: Any) -> None:
    env = Asked(Discrete(5), JOINED, Discrete(3))
    vector = build(env, wrappers=[WRAPPER])
    vector.reset(seed=0)
    env._mask = later
    with pytest.raises(EnvError, match=r"allows no action|neither action_masks"):
        vector.step(np.array([0, 4]))
    vector.close()


@pytest.mark.parametrize(
    ("env", "what"),
    [
        (Asked(Discrete(5), JOINED, Discrete(3)), r"action_masks()"),
        (Game(Discrete(5), JOINED, Discrete(3), told={"action_mask": JOINED}), "info['action_mask']"),
    ],
)
def test_a_mask_that_is_not_obeyed_is_noted(env: Game, what: str) -> None:
    assert check_env(env_config(), [lambda _: env]).notes == (
        f"the environment's {what} is not obeyed: env.wrappers=['{WRAPPER}'] makes it obeyed.",
    )
