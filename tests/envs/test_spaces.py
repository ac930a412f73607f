"""What a policy sees and does where an environment's spaces are others than a network's."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple

from ding_lite.envs import check_env, create_vector_env
from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.spaces import EnvSpec, PolicyObservations, load_spec, observation_side, spec_state
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.worker import SampleCollector
from ding_lite.worker.replay.buffer import UniformReplayBuffer
from tests.envs.test_vector_env import env_config
from tests.toys import Toy
from tests.worker.games import Acting


class Buffered(Toy):
    """Writes all its observations, the steps of its episode, into the same array; episodes have two steps."""

    observation_space = Box(0, 9, (1,), np.float32)

    def observe(self) -> Any:
        self.seen = np.zeros(1, np.float32) if self.seen is None else self.seen
        self.seen[0] = self.count
        return self.seen

    def play(self, action: Any) -> Any:
        return 1.0, self.count == 2


@pytest.mark.parametrize(
    ("space", "obs", "side", "seen"),
    [
        (Discrete(3, start=4), 6, Box(0, 1, (3,), np.float32), [0, 0, 1]),
        (MultiDiscrete([2, 3]), np.array([1, 0]), Box(0, 1, (5,), np.float32), [0, 1, 1, 0, 0]),
        (MultiBinary(3), np.array([1, 0, 1], np.int8), Box(0, 1, (3,), np.float32), [1, 0, 1]),
        (Box(0, 255, (2,), np.uint8), np.array([7, 9], np.uint8), Box(0, 255, (2,), np.float32), [7, 9]),
        (Box(-3, 3, (2,), np.int64), np.array([-3, 2]), Box(-3, 3, (2,), np.float32), [-3, 2]),
    ],
)
def test_counted_things_are_vectors_of_floats(
    space: gymnasium.Space[Any], obs: Any, side: Box, seen: list[int]
) -> None:
    build = lambda _: Toy(observation_space=space, seen=obs)  # noqa: E731
    cfg = env_config()
    env = create_vector_env(cfg, 1, 0, True, builders=[build])
    shown = env.reset()[0]
    assert (shown.dtype, shown.tolist()) == (np.float32, [seen])
    assert env.single_observation_space == side == check_env(cfg, [build]).observation_space
    env.close()


@pytest.mark.parametrize("space", [Box(0, 1, (3,), np.float64), Box(0, 255, (2, 3, 4, 5), np.uint8)])
def test_floats_and_arrays_of_bytes_pass_unchanged(space: gymnasium.Space[Any]) -> None:
    env = Toy(observation_space=space, seen=space.sample())
    assert PolicyObservations.wrap(env) is env
    spec = check_env(env_config(), [lambda _: env])
    assert (spec.observation_space, spec.notes) == (space, ())


def test_each_part_of_a_dict_is_converted() -> None:
    space = Dict(
        room=Discrete(3),
        body=Dict(speed=Box(-1, 1, (), np.float64), flags=MultiBinary(2)),
        camera=Box(0, 255, (40, 50, 3), np.uint8),
        joints=Box(-1, 1, (4,), np.float32),
    )
    obs = space.sample() | {"room": 1, "body": {"speed": np.array(0.5), "flags": np.array([0, 1], np.int8)}}
    build = lambda _: Toy(observation_space=space, seen=obs)  # noqa: E731
    env = create_vector_env(env_config(), 2, 0, True, builders=[build, build])
    shown, _ = env.reset()
    assert shown["room"].tolist() == [[0, 1, 0]] * 2
    assert shown["body"]["speed"].tolist() == [[0.5]] * 2
    assert (shown["body"]["flags"].dtype, shown["body"]["flags"].tolist()) == (np.float32, [[0, 1]] * 2)
    np.testing.assert_array_equal(shown["camera"][1], obs["camera"].transpose(2, 0, 1))
    np.testing.assert_array_equal(shown["joints"][0], obs["joints"])
    spec = check_env(env_config(), [build])
    assert spec.observation_space == env.single_observation_space
    assert spec.notes[0].startswith("'camera': observations [40, 50, 3] are images")


@pytest.mark.parametrize(
    ("space", "one", "shape"),
    [
        (MultiBinary((3, 8)), MultiBinary(8), (3, 8)),
        (Box(0, 255, (3, 8), np.uint8), Box(0, 255, (8,), np.uint8), (3, 8)),
        (Box(0, 255, (3, 10, 12, 3), np.uint8), Box(0, 255, (10, 12, 3), np.uint8), (3, 3, 10, 12)),
        (Box(0, 255, (3, 10, 12), np.uint8), Box(0, 255, (10, 12), np.uint8), (3, 1, 10, 12)),
        (MultiDiscrete([4, 3, 4], start=[1, 2, 0]), Discrete(5), (3, 5)),  # labels 0 to 4 in all
        (MultiDiscrete(np.array([[4, 2]] * 3)), MultiDiscrete([4, 2]), (3, 6)),
        (Box(-1, 1, (3, 8), np.float32), Box(-1, 1, (8,), np.float32), (3, 8)),
    ],
)
def test_what_several_agents_observe_is_converted_agent_by_agent(space: Any, one: Any, shape: tuple[int, ...]) -> None:
    states = Box(0, 255, (3, 6), np.uint8)  # a global state for each agent, no image
    both = Dict(agent_state=space, global_state=states)
    side, convert, _ = observation_side(both, "", MultiDiscrete([5] * 3))
    both.seed(0)
    obs: Any = both.sample()
    seen = convert(obs)
    assert side.contains(seen)
    assert seen["agent_state"].shape == shape
    _, convert_one, _ = observation_side(one)
    np.testing.assert_array_equal(seen["agent_state"], [convert_one(row) for row in obs["agent_state"]])
    assert (seen["global_state"].dtype, seen["global_state"].shape) == (np.float32, (3, 6))
    batch = convert(tree_map(lambda leaf: np.stack([leaf] * 4), obs))
    np.testing.assert_array_equal(batch["agent_state"], [seen["agent_state"]] * 4)
    single = observation_side(both, "", Discrete(5))[0]  # of one agent: a dict as any other
    assert single == Dict({key: observation_side(part)[0] for key, part in both.items()})


def test_a_dict_without_parts_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"an empty Dict, Dict\(\): leave it out"):
        observation_side(Dict(deep=Dict(), other=Box(-1, 1, (2,))))


@pytest.mark.parametrize("key", [0, ("a", 1)])
def test_a_dict_whose_keys_are_no_strings_is_refused(key: Any) -> None:
    part: Any = Dict({key: Box(-1, 1, (2,))})
    for space in (part, Dict(deep=part)):
        with pytest.raises(ConfigError, match=r"are a Dict with the key .*: expected strings"):
            observation_side(space)


def test_a_one_hot_vector_that_would_not_fit_is_not_made() -> None:
    space = Dict(count=Discrete(2**30), room=Discrete(3))
    env = PolicyObservations.wrap(Toy(observation_space=space, seen={"count": 7, "room": 2}))
    assert env.observation_space == Dict(count=Discrete(2**30), room=Box(0, 1, (3,), np.float32))
    obs = env.reset()[0]
    assert (obs["count"], obs["room"].tolist()) == (7, [0, 0, 1])
    with pytest.raises(
        ConfigError, match=r"Discrete\(1073741824\), which would be a one-hot vector of 1073741824 numb"
    ):
        check_env(env_config(), [lambda _: Toy(observation_space=space["count"], seen=7)])


BOOL: Any = np.bool_  # which gymnasium's types leave out
LAST, FIRST = "are images in the order height, width, channels", "are images in the order channels, height, width"


@pytest.mark.parametrize(
    ("space", "env", "side", "note"),
    [
        (Box(0, 255, (40, 50, 3), np.uint8), {}, Box(0, 255, (3, 40, 50), np.uint8), LAST),
        (Box(0, 255, (40, 50, 3), np.int64), {}, Box(0, 255, (3, 40, 50), np.uint8), LAST),
        (Box(0, 1, (10, 10, 4), BOOL), {}, Box(0, 1, (4, 10, 10), np.float32), LAST),
        (Box(0, 1, (9, 8, 1), np.float64), {}, Box(0, 1, (1, 9, 8), np.float64), LAST),
        (Box(-5, 5, (2, 9, 8), np.int32), {}, Box(-5, 5, (2, 9, 8), np.float32), FIRST),
        (Box(0, 255, (4, 84, 84), np.uint8), {}, Box(0, 255, (4, 84, 84), np.uint8), FIRST),
        (Box(0, 9, (10, 10, 6), np.uint8), dict(image_layout="channels_last"), Box(0, 9, (6, 10, 10), np.uint8), ""),
        (Box(0, 9, (10, 10, 6), np.uint8), dict(image_layout="channels_first"), Box(0, 9, (10, 10, 6), np.uint8), ""),
        (Box(0, 255, (84, 80), np.uint8), {}, Box(0, 255, (1, 84, 80), np.uint8), "are grey images"),
        (Box(0, 255, (84, 80), np.uint8), dict(frame_stack=4), Box(0, 255, (4, 84, 80), np.uint8), "are grey images"),
        (Box(0, 255, (40, 50, 3), np.uint8), dict(frame_stack=2), Box(0, 255, (6, 40, 50), np.uint8), LAST),
    ],
    ids=str,
)
def test_channels_of_an_image_come_first_and_the_user_is_told(
    space: Box, env: dict[str, Any], side: Box, note: str
) -> None:
    image = space.sample()
    build = lambda _: Toy(observation_space=space, seen=image)  # noqa: E731
    spec = check_env(env_config(**env), [build])
    assert spec.observation_space == side
    assert len(spec.notes) == (note != "")
    assert note in "".join(spec.notes)
    made = create_vector_env(env_config(**env), 1, 0, True, builders=[build])
    shown = made.reset()[0][0]
    assert (shown.shape, shown.dtype) == (side.shape, side.dtype)
    moved = image.transpose(2, 0, 1) if "last" in str(env) or note == LAST else image.reshape(-1, *image.shape[-2:])
    np.testing.assert_array_equal(shown[-len(moved) :], moved)


def test_images_whose_channels_may_be_anywhere_are_asked_for() -> None:
    for shape in ((10, 10, 6), (4, 4, 4), (84, 84, 12)):
        space = Dict(camera=Box(0, 1, shape, np.float32))
        with pytest.raises(ConfigError, match=r"do not show which dimension .*: set env\.image_layout to 'cha"):
            check_env(
                env_config(), [partial(lambda space, _: Toy(observation_space=space, seen=space.sample()), space)]
            )


@pytest.mark.parametrize(
    "space", [Tuple([Discrete(2), Discrete(3)]), Text(5), Dict({"left": Discrete(2), "right": Text(3)})]
)
def test_other_observations_are_refused_by_name(space: gymnasium.Space[Any]) -> None:
    with pytest.raises(ConfigError, match=r"^The environment's observations are (Tuple|Text)\(.*: expected Box, Dis"):
        check_env(env_config(), [lambda _: Toy(observation_space=space, seen=space.sample())])


# -- observations in one memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("manager", "frame_stack"), [("base", 0), ("base", 3), ("subprocess", 3)])
def test_final_observations_and_stacks_outlive_an_environments_own_memory(manager: str, frame_stack: int) -> None:
    cfg = env_config(manager={"type": manager}, frame_stack=frame_stack)
    env = create_vector_env(cfg, 1, 0, True, builders=[lambda _: Buffered()])
    env.reset()
    env.step(np.array([0]))
    obs, _, terminated, _, info = env.step(np.array([0]))
    assert terminated.all()
    assert obs.ravel().tolist() == ([0] if not frame_stack else [0, 0, 0])
    assert info["final_obs"].ravel().tolist() == ([2] if not frame_stack else [0, 1, 2])
    env.close()


IMAGE = Box(0, 255, (4, 84, 84), np.uint8)
ACTIONS = [
    Discrete(3, start=2),
    MultiDiscrete([2, 5], start=[1, -1]),
    MultiBinary((2, 3)),
    Box(np.array([-2.5, 0.1], np.float32), np.array([np.inf, 7.0], np.float32)),
    Box(-3, 9, (2,), np.int16),
    Dict(action_type=Discrete(4), action_args=Box(-1e-3, 3.0, (2,), np.float64)),
]
OBSERVATIONS = [IMAGE, Dict(camera=IMAGE, body=Dict(joints=Box(-np.inf, np.inf, (3,)))), Box(-1, 1, (), np.float32)]


@pytest.mark.parametrize("action", ACTIONS, ids=str)
@pytest.mark.parametrize("observation", OBSERVATIONS, ids=["image", "dict", "number"])
def test_a_spec_comes_back_from_plain_values(action: Space[object], observation: Space[object]) -> None:
    sides = (ActionUnits(action, act_scale) for act_scale in (True, False))
    for act_scale, side in zip((True, False), sides, strict=True):
        spec = EnvSpec(observation, side.space, 4, (), action, None if observation is IMAGE else Discrete(7))
        text = json.dumps(spec_state(spec))
        assert len(text) < 1000, "the bounds of an image are two numbers"
        assert load_spec(json.loads(text), act_scale) == spec


SHAPES = {"vector": (2,), "grey": (36, 37), "colour": (3, 36, 37)}
STACKED = {"vector": (6,), "grey": (3, 36, 37), "colour": (9, 36, 37)}  # of three frames


class Camera(Toy):
    """Every number of an observation says which step it is; episodes last 4 to 7 steps, half of them truncated."""

    observation_space = Dict({key: Box(0, 255, shape, np.uint8) for key, shape in SHAPES.items()})

    def begin(self) -> None:
        self.first = int(self.np_random.integers(1, 200))
        self.length, self.ends = int(self.np_random.integers(4, 8)), bool(self.np_random.integers(2))

    def play(self, action: Any) -> Any:
        over = self.count == self.length
        return 1.0, over and self.ends, over and not self.ends

    def observe(self) -> Any:
        return {key: np.full(shape, self.first + self.count, np.uint8) for key, shape in SHAPES.items()}


gymnasium.register("Camera-v0", f"{__name__}:Camera")


@pytest.mark.parametrize("manager", ["base", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_replay_returns_the_stacks_that_the_policy_saw(manager: str) -> None:
    cfg = env_config(env_id="Camera-v0", frame_stack=3, manager={"type": manager})
    env: Any
    with closing(create_vector_env(cfg, 2, 5, training=True)) as env:
        assert {key: part.shape for key, part in env.single_observation_space.items()} == STACKED
        seen: list[Any] = []

        def act(obs: Any, **kwargs: Any) -> dict[str, Any]:
            seen.append(tree_map(np.array, obs))
            return {"action": torch.zeros(2, dtype=torch.int64)}

        collector = SampleCollector(env, Acting(act), 40, seeds=[1, 2])
        buffer = UniformReplayBuffer(200, 2, frame_stack=3, seed=0)
        for _ in range(3):
            buffer.push(collector.collect()[0])
    frames = {key: tuple(column.shape[1:]) for key, column in buffer.ring.columns["obs"].items()}
    assert frames == SHAPES, "one frame a step"
    place_B = torch.arange(2 * 59)
    obs, successor = buffer.ring.observations(place_B), buffer.ring.successors(place_B)
    done_B, cut_B = (buffer.ring.columns[key][place_B] for key in ("done", "traj_flag"))
    whole = tree_map(lambda *rows: np.concatenate(rows), *seen)
    for stored, true in zip(tree_leaves(obs), tree_leaves(whole), strict=True):
        np.testing.assert_array_equal(stored, true[: len(place_B)])
    for stored, later, now in zip(*map(tree_leaves, (successor, whole, obs)), strict=True):
        np.testing.assert_array_equal(stored[~cut_B], later[2 : len(place_B) + 2][~cut_B])
        truncated = cut_B & ~done_B
        assert truncated.any()
        newest, before = (leaf[truncated].flatten(1)[:, -1] for leaf in (stored, now))
        assert torch.equal(newest, before + 1)


def test_a_space_of_another_kind_is_not_described() -> None:
    spec = EnvSpec(Dict(text=Text(5)), Discrete(2), 0, (), Discrete(2))
    assert spec_state(spec) == {}
    assert load_spec({}, True) is None
