"""The model's shapes are the environment's."""

from __future__ import annotations

import inspect
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space

from ding_lite.config import compile_config, set_shapes
from ding_lite.envs import EnvSpec, check_env
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY, ConfigError
from tests.algorithms import row
from tests.config.helpers import nested, pair
from tests.policy.helpers import OURS
from tests.toys import Toy

SPACES: dict[str, Space[Any]] = {
    "discrete": Discrete(3),
    "continuous": Box(-1, 1, (2,)),
    "several": MultiDiscrete([2, 3]),
    "hybrid": Dict(action_type=Discrete(3), action_args=Box(-1, 1, (2,))),
    "bits": MultiBinary(4),
}
POLICIES = [name for name in OURS if not POLICY_REGISTRY.find(name).multi_agent]


def compiled(policy: str, main: dict[str, Any] | None = None) -> Any:
    offline = POLICY_REGISTRY.find(policy).learns_from == "dataset"
    collect = dict(collect=dict(data_path="data.npz")) if offline else {}
    return compile_config((dict(policy={**collect, **(main or {})}), dict(policy=dict(type=policy))))


def spec(observation: Space[Any] | None = None, action: Space[Any] | None = None, frame_stack: int = 0) -> EnvSpec:
    return EnvSpec(observation or Box(-1, 1, (4,)), action or Discrete(2), frame_stack)


def test_unset_shapes_are_the_environments() -> None:
    cfg = compile_config(pair())
    set_shapes(cfg, spec())
    assert cfg.policy.model == dict(obs_shape=4, action_shape=2)
    cfg = compile_config(pair(nested("env.frame_stack", 4)))
    set_shapes(cfg, spec(Box(0, 255, (4, 84, 84), np.uint8), Discrete(6), 4))
    assert cfg.policy.model == dict(obs_shape=[4, 84, 84], action_shape=6)


NESTED = Dict(camera=Box(0, 255, (3, 40, 40), np.uint8), body=Dict(joints=Box(-1, 1, (5,)), goal=Box(0, 1, (2,))))


def test_a_dict_of_observations_has_a_dict_of_shapes() -> None:
    shapes = dict(camera=[3, 40, 40], body=dict(joints=5, goal=2))
    for main in (nested("policy.type", "dqn"), nested("policy", dict(type="dqn", model=dict(obs_shape=shapes)))):
        cfg = compile_config((main, dict(policy=dict(type="dqn"))))
        set_shapes(cfg, spec(NESTED))
        assert cfg.policy.model.obs_shape == shapes
    with pytest.raises(ConfigError, match=r"obs_shape: expected the environment's {'camera'.*got 7"):
        set_shapes(compile_config((nested("policy.model.obs_shape", 7), dict(policy=dict(type="dqn")))), spec(NESTED))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_default_model_of_every_policy_takes_a_dict_of_observations(policy: str) -> None:
    spaces = POLICY_REGISTRY.find(policy).action_spaces
    cfg = compiled(policy)
    set_shapes(cfg, spec(NESTED, next(space for space in SPACES.values() if isinstance(space, spaces))))
    assert cfg.policy.model.obs_shape == dict(camera=[3, 40, 40], body=dict(joints=5, goal=2))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_mask_is_a_part_of_the_shape_and_refused_with_actions_that_are_no_choices(policy: str) -> None:
    spaces = POLICY_REGISTRY.find(policy).action_spaces
    space = next(space for space in SPACES.values() if isinstance(space, spaces))
    cfg, masked = compiled(policy), spec(Dict(seen=Box(-1, 1, (3,)), action_mask=MultiBinary(2)), space)
    if not isinstance(space, Discrete | MultiDiscrete):
        with pytest.raises(ConfigError, match=r"have an action_mask, but the actions are .*: expected Discrete or"):
            set_shapes(cfg, masked)
        return
    set_shapes(cfg, masked)
    assert cfg.policy.model.obs_shape == dict(seen=3, action_mask=2)


def test_stacks_of_masks_are_refused() -> None:
    cfg = compile_config((dict(env=dict(frame_stack=4)), dict(policy=dict(type="dqn"))))
    with pytest.raises(ConfigError, match=r"env\.frame_stack=4, but the observations have an action_mask"):
        set_shapes(cfg, spec(Dict(seen=Box(-1, 1, (3,)), action_mask=Box(0, 1, (2,), np.int8)), frame_stack=4))


@pytest.mark.parametrize("given", [{}, {"action_shape": [4]}, {"action_shape": 4}])
def test_several_choices_are_a_list_and_one_choice_is_a_number(given: dict[str, Any]) -> None:
    for space, shape in ((MultiDiscrete([4]), [4]), (Discrete(4), 4)):
        cfg = compile_config((dict(policy=dict(model=dict(given))), dict(policy=dict(type="bdq"))))
        set_shapes(cfg, spec(action=space))
        assert cfg.policy.model.action_shape == shape
    if not given:
        cfg = compile_config(({}, dict(policy=dict(type="bdq"))))
        set_shapes(cfg, spec(action=MultiDiscrete([2, 3])))
        assert cfg.policy.model.action_shape == [2, 3]


@pytest.mark.parametrize(
    ("main", "env_spec", "message"),
    [
        (nested("policy.model.obs_shape", 5), spec(), r"obs_shape: expected .* 4 .*got 5. Leave it out"),
        (nested("policy.model.action_shape", 3), spec(), r"action_shape: expected .* 2 .*got 3"),
        (
            nested("policy.model.obs_shape", [4, 84, 84]),
            spec(Box(0, 255, (1, 84, 84), np.uint8)),
            r"obs_shape: expected .* \[1, 84, 84\] \(env.frame_stack=0\), got \[4, 84, 84\]",
        ),
        (nested("env.frame_stack", 4), spec(), "env.frame_stack=4, but the environment stacks 0 frames"),
        ({}, spec(action=Box(-1, 1, (3,))), "Policy 'config_test' expects Discrete actions, got Box"),
        ({}, spec(action=MultiDiscrete([2, 3])), "expects Discrete actions, got MultiDiscrete"),
        ({}, spec(Box(-1, 1, ())), "policy.model.obs_shape is not set and does not follow from the environment"),
        (
            {},
            spec(Dict(camera=Box(0, 255, (3, 8, 8), np.uint8), speed=Box(-1, 1, (2,)))),
            "observations are a Dict of camera, speed, but the model of policy 'config_test' takes one array: wrap",
        ),
        (nested("policy.model.type", "config_test_wide"), spec(), "policy.model.width is not set.* expected int"),
    ],
)
def test_shapes_that_do_not_fit(main: Any, env_spec: Any, message: str) -> None:
    cfg = compile_config(pair(main))
    with pytest.raises(ConfigError, match=message):
        set_shapes(cfg, env_spec)


def test_shapes_of_a_given_model_are_its_own_unless_written_down() -> None:
    cfg = compile_config(pair(nested("policy.model.free", 1)), model_given=True)
    set_shapes(cfg, spec(), model_given=True)
    assert cfg.policy.model == dict(free=1)
    cfg = compile_config(pair(nested("policy.model.obs_shape", 5)), model_given=True)
    with pytest.raises(ConfigError, match=r"obs_shape: expected .* got 5"):
        set_shapes(cfg, spec(), model_given=True)


def advised(message: str) -> list[str]:
    """Return the policies that a message advises, which stand behind its last colon."""
    advice = message.rpartition(": ")[2]
    return re.findall(r"\w+", advice.removeprefix("use ").replace(" or ", " ")) if advice.startswith("use ") else []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", SPACES)
def test_a_policy_takes_the_actions_or_names_policies_that_do(policy: str, kind: str) -> None:
    space = spec(action=SPACES[kind])
    if isinstance(SPACES[kind], POLICY_REGISTRY.find(policy).action_spaces):
        set_shapes(compiled(policy), space)
        return
    with pytest.raises(ConfigError, match=rf"^Policy '{policy}' expects .* actions, got ") as error:
        set_shapes(compiled(policy), space)
    advice = {other: POLICY_REGISTRY.find(other).__module__ for other in advised(str(error.value))}
    others = [other for other, module in advice.items() if module.startswith("ding_lite.")]  # not one of another test
    for other in others:
        set_shapes(compiled(other), space)
    offline = POLICY_REGISTRY.find(policy).learns_from == "dataset"
    if kind == "bits" or (offline and kind == "hybrid"):
        what = " that learns from a data set" if offline else ""
        assert f"no policy{what} takes {type(SPACES[kind]).__name__} actions; wrap the environment." in str(error.value)
    else:
        assert others


@pytest.mark.parametrize(("policy", "advice"), [("ppo", "set policy.multi_agent=True"), ("a2c", "use .*mappo")])
def test_a_policy_of_one_agent_is_not_built_for_several(policy: str, advice: str) -> None:
    agents = spec(Dict(agent_state=Box(-1, 1, (2, 4))), MultiDiscrete([3, 3]))
    with pytest.raises(
        ConfigError, match=f"^The environment has 2 agents, but policy '{policy}' plays.* one: {advice}"
    ):
        set_shapes(compiled(policy), agents)
    set_shapes(compiled("ppo", dict(multi_agent=True)), agents)


@pytest.mark.parametrize(
    ("policy", "words", "takes"),
    [
        *[(name, {}, row(name).state_of_each) for name in OURS if POLICY_REGISTRY.find(name).multi_agent],
        ("madqn", dict(model=dict(mixer=True)), False),
        ("qmix", dict(model=dict(mixer=False)), None),  # VDN does not read it
    ],
)
def test_a_global_state_of_each_agent_is_refused_where_one_of_all_is_needed(
    policy: str, words: dict[str, Any], takes: bool | None
) -> None:
    def observed(*state: int) -> EnvSpec:
        return spec(Dict(agent_state=Box(-1, 1, (2, 4)), global_state=Box(-1, 1, state)), MultiDiscrete([3, 3]))

    for shape in ((2, 6), (3, 6), (1, 2, 6)):
        cfg = compiled(policy, words)
        if takes is None or (takes and shape == (2, 6)):
            set_shapes(cfg, observed(*shape))
            assert cfg.policy.model.global_obs_shape == 6
            continue
        expected = (
            rf"^Policy '{policy}' learns from a vector that shows the state .*, got \[{', '.join(map(str, shape))}\]"
        )
        with pytest.raises(ConfigError, match=f"{expected} for M=2 agents: flatten it in the environment\\.$"):
            set_shapes(cfg, observed(*shape))


@pytest.mark.parametrize("space", [Box(-1, 1, (2, 2)), Dict(left=Discrete(2), right=Discrete(2))])
@pytest.mark.parametrize("policy", ["sac", "dqn", "ppo"])
def test_no_policy_is_advised_for_actions_that_none_takes(policy: str, space: Space[Any]) -> None:
    with pytest.raises(ConfigError, match=r"actions are .*: expected Discrete, MultiDiscrete, MultiBinary, a Box"):
        set_shapes(compiled(policy), spec(action=space))


@pytest.mark.parametrize("key", ["action_space", "model.action_space", "model.actor_head_type"])
@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        *[
            (name, "hybrid")
            for name in POLICIES
            if Dict not in POLICY_REGISTRY.find(name).action_spaces
            if name != "ddpg"
        ],
        *[("sac", "discrete"), ("paddpg", "discrete"), ("pdqn", "continuous"), ("dqn", "continuous")],
    ],
)
def test_a_kind_of_actions_that_a_policy_does_not_take_is_refused_at_once(policy: str, kind: str, key: str) -> None:
    offline = POLICY_REGISTRY.find(policy).learns_from == "dataset"
    advice = "no policy that learns from a data set takes " if offline else "use "
    expected = rf"^policy\.{key}: policy '{policy}' expects \w+(, \w+)?( or \w+)? actions, got '{kind}': {advice}"
    with pytest.raises(ConfigError, match=expected) as error:
        compiled(policy, nested(key, kind))
    others = advised(str(error.value))
    for other in others:
        assert isinstance(SPACES[kind], POLICY_REGISTRY.find(other).action_spaces)
    if kind == "hybrid" and not offline:
        assert {"paddpg", "pdqn"} <= set(others)
    assert all(POLICY_REGISTRY.find(other).learns_from != "dataset" for other in others)


class Free(Toy):
    """The second number of its actions has no bounds; episodes of one step."""

    def __init__(self, hybrid: bool) -> None:
        args = Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32))
        self.action_space = Dict({"action_type": Discrete(2), "action_args": args}) if hybrid else args

    def play(self, action: Any) -> Any:
        return 0.0, True


CONTINUOUS = [name for name in POLICIES if {Box, Dict} & set(POLICY_REGISTRY.find(name).action_spaces)]
BOUNDED = dict(name="ding_lite.envs.actions:BoundActions", low=-3, high=[1, 3])
DIMENSION = r"dimension 1( of 'action_args')? of the environment's actions ranges from "


def fitted(name: str, env: gymnasium.Env, *, bound_type: str | None = "", **keys: Any) -> Any:
    """Return the config and the policy's action space in this environment."""
    default = POLICY_REGISTRY.find(name).default_config()
    model: dict[str, Any] = {} if "actor_head_hidden_size" in default.model else dict(encoder_hidden_size_list=[8])
    model |= {} if bound_type == "" else dict(bound_type=bound_type)
    cfg = compile_config((dict(env=dict(env_id="any") | keys, policy=dict(model=model)), dict(policy=dict(type=name))))
    env_spec = check_env(cfg.env, [lambda _: env])
    set_shapes(cfg, env_spec)
    return cfg, env_spec.action_space


@pytest.mark.parametrize("name", CONTINUOUS)
def test_every_policy_fits_the_range_of_actions_or_refuses_it(name: str) -> None:
    hybrid = Box not in POLICY_REGISTRY.find(name).action_spaces
    free = Free(hybrid)
    if not POLICY_REGISTRY.find(name).unit_actions:  # they are not always -1..1
        assert fitted(name, free)[0].policy.model.get("bound_type") is None
        assert "bound_type" not in fitted(name, free, wrappers=[BOUNDED])[0].policy.model
        model = MODEL_REGISTRY.find(POLICY_REGISTRY.find(name).default_model()[0])
        if "bound_type" in inspect.signature(model).parameters:
            assert fitted(name, free, wrappers=[BOUNDED], act_scale=False)[0].policy.model.bound_type is None
            with pytest.raises(ConfigError, match=f"with policy.model.bound_type='tanh', but {DIMENSION}-inf to inf: "):
                fitted(name, free, bound_type="tanh")
        return
    with pytest.raises(ConfigError, match=DIMENSION + r"-inf to inf: bound it .*actions:BoundActions.*TransformAction"):
        fitted(name, free)
    with pytest.raises(ConfigError, match=DIMENSION + r"-3 to 3: set env\.act_scale=True"):
        fitted(name, free, wrappers=[BOUNDED], act_scale=False)
    space = fitted(name, free, wrappers=[BOUNDED])[1]
    assert (space["action_args"] if hybrid else space) == Box(-1, 1, (2,))
    if not hybrid:
        declared = gymnasium.wrappers.TransformAction(free, lambda action: action, Box(-3, 3, (2,)))
        assert fitted(name, declared)[1] == Box(-1, 1, (2,))
