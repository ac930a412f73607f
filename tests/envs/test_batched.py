"""Simulators that step as one tensor: what is collected from one equals what is collected from single environments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

import ding_lite
from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.envs import EnvError, check_env, create_vector_env
from ding_lite.envs.batched import create_batched
from ding_lite.policy import create_policy
from ding_lite.utils import ENV_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves
from ding_lite.worker import EpisodeCollector, SampleCollector

SPACE, ACTIONS = Box(-np.inf, np.inf, (2,), np.float32), Discrete(3)
LIMIT = 7  # env steps after which an episode is truncated


@ENV_REGISTRY.register("walk")
class Walk(gymnasium.Env):
    """Walks from 0 by the action - 1; it terminates at 3, where the reward is 1. The second number is the time."""

    config: ClassVar[dict[str, Any]] = {}
    observation_space, action_space = SPACE, ACTIONS

    def __init__(self, cfg_env: Any) -> None:
        self._kwargs = cfg_env.kwargs

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._place = self._time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place, self._time = self._place + int(action) - 1, self._time + 1
        obs = np.array([self._place, self._time], np.float32)
        info = {"height": float(self._place)}
        return obs, 2.0 * (self._place == 3), self._place == 3, self._time >= LIMIT, info

    @classmethod
    def make_batched(cls, cfg_env: Any, num_envs: int, device: torch.device) -> VectorEnv:
        return Walkers(num_envs, **cfg_env.kwargs)


class Walkers(VectorEnv):
    """The same walks as one tensor, in one of the modes of autoreset, in one of the kinds of arrays."""

    def __init__(self, num_envs: int, mode: str = "SAME_STEP", kind: str = "torch", fault: str = "") -> None:
        self.num_envs, self._fault = num_envs, fault
        self.metadata = {"autoreset_mode": getattr(AutoresetMode, mode, None), "max_episode_steps": LIMIT}
        self._mode, self._torch = mode, kind == "torch"
        self._arrays: dict[str, Any] = {}  # what is returned; each step overwrites it
        space = Box(-9, 9, (2,), np.int64) if fault == "integers" else SPACE
        self.single_observation_space, self.single_action_space = space, ACTIONS
        self.observation_space, self.action_space = batch_space(space, num_envs), batch_space(ACTIONS, num_envs)

    def _out(self, tensor: Tensor, name: str) -> Any:
        if self._fault == "integers" and name in ("obs", "final"):
            tensor = tensor.long()
        own = self._arrays.setdefault(name, tensor.clone()).copy_(tensor)
        return own if self._torch else own.numpy()

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        mask = torch.as_tensor((options or {}).get("reset_mask", np.full(self.num_envs, True)))
        state = getattr(self, "state", torch.zeros(self.num_envs, 2))
        self.state = state.masked_fill(mask.unsqueeze(1), 0.0)
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._out(self.state, "obs"), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert isinstance(actions, Tensor) == self._torch
        actions = torch.as_tensor(actions)
        last = self.state + torch.stack([actions - 1.0, torch.ones(self.num_envs)], 1)
        terminated, truncated = last[:, 0] == 3, last[:, 1] >= LIMIT
        if self._mode == "NEXT_STEP":
            last = last.masked_fill(self._ended.unsqueeze(1), 0.0)
            terminated, truncated = terminated & ~self._ended, truncated & ~self._ended
        self.state, self._ended = last, terminated | truncated
        info: dict[str, Any] = {"height": self._out(last[:, 0], "height")}
        if self._mode == "SAME_STEP":
            self.state = last.masked_fill(self._ended.unsqueeze(1), 0.0)
            info |= {} if self._fault == "no final_obs" else {"final_obs": self._out(last, "final")}
        reward = 2.0 * terminated.float()
        if self._fault == "nan" and float(last[1, 1]) == 4:
            reward[1] = torch.nan
        if self._fault == "silent":
            terminated, truncated = torch.zeros(2, self.num_envs, dtype=torch.bool)
        shape = reward.unsqueeze(1) if self._fault == "shape" else reward
        flags = self._out(terminated, "terminated"), self._out(truncated, "truncated")
        return self._out(self.state, "obs"), self._out(shape, "reward"), *flags, info

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = torch.as_tensor(state["state"])


class Drawn:
    """A policy whose actions are drawn in advance."""

    stores_outputs = True

    def __init__(self, num_envs: int) -> None:
        self._actions = iter(torch.randint(0, 3, (1000, num_envs), generator=torch.Generator().manual_seed(0)))

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        return {}

    def act(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        return {"action": next(self._actions)}

    def to_row(self, obs: Any, output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        flags = {"done": timestep.done, "traj_flag": timestep.traj_flag}
        return {"obs": obs, "action": output["action"], "reward": timestep.reward, **flags}

    def reset(self, env_id: Any = None) -> None:
        pass


def create(manager: str, num_envs: int, training: bool = True, policy: str = "dqn", **env: Any) -> Any:
    main = dict(env=dict(kwargs=env.pop("kwargs", {}), info_keys=["height"], **env), policy={})
    cfg = compile_config((main, dict(env=dict(type="walk"), env_manager=dict(type=manager), policy=dict(type=policy))))
    if manager == "batched" and training:
        return create_batched(Walk, cfg.env, num_envs, training=True), cfg
    return create_vector_env(cfg.env, num_envs, 0, training), cfg


def collect(manager: str, kwargs: dict[str, Any], collects: int = 2, **env: Any) -> list[Any]:
    vector, _ = create(manager, 5, kwargs=kwargs, **env)
    collector = SampleCollector(vector, Drawn(5), 5 * 20, list(range(5)))
    found: list[Any] = []
    for _ in range(collects):
        block, figures = collector.collect()
        found.append(({key: leaf.clone() for key, leaf in block.items()}, figures))
    return found


@pytest.mark.parametrize("mode", ["SAME_STEP", "DISABLED"])
@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("form", ["", "integers"])
def test_blocks_equal_those_of_single_environments(mode: str, kind: str, clip: bool, form: str) -> None:
    expected = collect("base", {}, clip_rewards=clip)
    found = collect("batched", dict(mode=mode, kind=kind, fault=form), clip_rewards=clip)
    for (block, figures), (own, others) in zip(expected, found, strict=True):
        assert block.keys() == own.keys()
        assert block["final_index"].numel() > 10
        for key, leaf in block.items():
            torch.testing.assert_close(own[key], leaf, rtol=0, atol=0)
        figures.pop("duration"), others.pop("duration")
        assert figures == others


@pytest.mark.parametrize("mode", ["SAME_STEP", "DISABLED"])
def test_an_evaluation_sees_what_single_environments_return(mode: str) -> None:
    single, batched = create("base", 4, training=False)[0], create("batched", 4, False, kwargs=dict(mode=mode))[0]
    for vector in (single, batched):
        vector.reset(seed=[0, 1, 2, 3])
    for action in torch.randint(0, 3, (60, 4), generator=torch.Generator().manual_seed(1)).numpy():
        results = [vector.step(action) for vector in (single, batched)]
        for one, other in zip(*(result[:4] for result in results), strict=True):
            np.testing.assert_array_equal(one, other)
        infos = [result[4] for result in results]
        for key in ("episode_return", "episode_length", "final_obs", "episode_info"):
            assert (key in infos[0]) == (key in infos[1])
            np.testing.assert_array_equal(*(info.get(key, 0) for info in infos))


def test_a_step_that_resets_repeats_the_last_one_of_its_episode_and_does_not_count() -> None:
    rows: dict[str, list[Tensor]] = {
        key: [] for key in ("obs", "action", "reward", "done", "traj_flag", "episode_step", "active")
    }
    episodes, lengths = 0, 0.0
    for block, figures in collect("batched", dict(mode="NEXT_STEP"), collects=4):
        for key, parts in rows.items():
            parts.append(block[key])
        assert torch.equal(block["final_index"], block["traj_flag"].flatten().nonzero().squeeze(1))
        episodes, lengths = episodes + figures["episode"], lengths + figures["length"]
        real = block["active"].flatten()[block["final_index"]]
        assert figures["episode"] == real.sum() > 5
        assert figures["info/height/episodes"] == figures["episode"]
    column = {key: torch.cat(parts) for key, parts in rows.items()}
    t, n = (~column["active"]).nonzero(as_tuple=True)
    assert len(t) > 20
    for key in rows.keys() - {"active"}:
        assert torch.equal(column[key][t, n], column[key][t - 1, n])
    assert column["traj_flag"][t, n].all()
    steps = column["episode_step"]
    follows = column["active"][1:] & ~column["traj_flag"][:-1]
    assert torch.equal(steps[1:][follows], steps[:-1][follows] + 1)
    assert not steps[1:][column["active"][1:] & column["traj_flag"][:-1]].any()
    walked = column["obs"][..., 0][1:][follows] - column["obs"][..., 0][:-1][follows]
    assert torch.equal(walked, column["action"][:-1][follows] - 1.0)
    running = (steps[-1][~column["traj_flag"][-1]] + 1).sum()
    assert lengths == column["active"].sum() - running


def test_elapsed_steps_are_not_set_where_there_are_none() -> None:
    cfg = create("batched", 2)[1].env
    cfg.manager.random_elapsed_steps = True
    with pytest.raises(ConfigError, match="no attribute elapsed_steps"):
        check_env(cfg)


@pytest.mark.parametrize("name", ["ppo", "a2c", "pqn"])
def test_policies_learn_nothing_from_steps_that_reset(name: str) -> None:
    vector, cfg = create("batched", 5, kwargs=dict(mode="NEXT_STEP"), policy=name)
    cfg.policy.model.update(obs_shape=2, action_shape=3)
    parameters = []
    for garbage in (False, True):
        torch.manual_seed(0)
        policy = create_policy(cfg.policy)
        block, _ = SampleCollector(vector, policy, 5 * 40, list(range(5))).collect()
        assert (~block["active"]).sum() > 5
        if garbage:
            for key in ("obs", "logit", "reward"):
                block[key][~block["active"]] = 3.0
        for batch in policy.batches(policy.to_samples(block)):
            policy.learn(batch)
        parameters.append(torch.cat([leaf.flatten() for leaf in policy.model.state_dict().values()]))
    assert torch.equal(*parameters)


def test_whole_episodes_are_not_collected_where_steps_reset() -> None:
    vector, _ = create("batched", 5, kwargs=dict(mode="NEXT_STEP"))
    with pytest.raises(ConfigError, match="NEXT_STEP"):
        EpisodeCollector(vector, Drawn(5), 5, list(range(5)))


@pytest.mark.parametrize("policy", ["ppo", "dqn"])
def test_a_vectorised_id_of_gymnasium_is_trained(policy: str) -> None:
    env = dict(env_id="CartPole-v1", collector_env_num=16)
    main = dict(
        exp_name="vectorised", env=env, policy=dict(collect=dict(n_sample=512), eval=dict(evaluator=dict(eval_freq=10)))
    )
    create_config = dict(env_manager=dict(type="batched"), policy=dict(type=policy))
    run = ding_lite.train((main, create_config), seed=0, max_env_step=2000)
    assert 8 < run.best_return < 500


def test_without_final_observations_the_ones_before_stand_for_them() -> None:
    (block, _), *_ = collect("batched", {"fault": "no final_obs"})
    flat = block["obs"].flatten(0, 1)
    assert torch.equal(block["final_obs"], flat[block["final_index"]])
    spec = check_env(create("batched", 2, kwargs={"fault": "no final_obs"})[1].env)
    assert any("bootstrapped" in note for note in spec.notes)


def test_a_number_that_is_not_finite_names_environment_key_and_step() -> None:
    with pytest.raises(EnvError, match=r"'walk': reward of environment 1 is nan in step \d+ of the collect"):
        collect("batched", {"fault": "nan"}, collects=1)


def test_an_episode_that_ends_without_saying_so_is_found_by_its_length() -> None:
    with pytest.raises(EnvError, match=r"'walk': a running episode has 20 env steps, .* is 7"):
        collect("batched", {"fault": "silent"}, collects=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(kwargs={"mode": "NONE"}), "autoreset_mode"),
        (dict(kwargs={"mode": "NEXT_STEP"}, n_evaluator_episode=9), r"evaluator_env_num=8: set it to"),
        (dict(kwargs={"fault": "shape"}), r"reward \[2, 1\]"),
        (dict(frame_stack=4), "frame_stack"),
        (dict(max_episode_steps=5), "truncates after 7 env steps"),
        (dict(collector_max_episode_steps=5), "collector_max_episode_steps"),
    ],
)
def test_a_simulator_that_breaks_the_contract_is_refused(changes: dict[str, Any], message: str) -> None:
    main = dict(env=dict(changes), policy={})
    create_config = dict(env=dict(type="walk"), env_manager=dict(type="batched"), policy=dict(type="dqn"))
    cfg = compile_config((main, create_config))
    with pytest.raises(ConfigError, match=message):
        check_env(cfg.env)


def test_a_restored_collector_goes_on_with_the_same_rows() -> None:
    vector, _ = create("batched", 3)
    whole = SampleCollector(vector, Drawn(3), 30, [0, 1, 2])
    whole.collect()
    state = whole.local_state_dict()
    saved = [leaf.clone() for leaf in tree_leaves(state["env"]["engine"])]
    resumed = SampleCollector(create("batched", 3)[0], Drawn(3), 30, [5, 6, 7])
    state["env"]["engine"]["state"] = saved[0]
    assert resumed.load_local_state_dict(state) == []
    for collector in (whole, resumed):
        collector._policy = Drawn(3)
    (one, _), (other, _) = whole.collect(), resumed.collect()
    for key, leaf in one.items():
        torch.testing.assert_close(other[key], leaf, rtol=0, atol=0)
    del state["env"]["engine"]
    assert resumed.load_local_state_dict(state) == [0, 1, 2]


class Climbers(VectorEnv):
    """One agent or several climb by the action - 1; where an agent is at 1 or above, the action 2 is forbidden."""

    def __init__(self, num_envs: int, agents: int) -> None:
        self.num_envs, self._agents, shape = num_envs, agents, (agents,) if agents else ()
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "max_episode_steps": LIMIT}
        self._key = "agent_state" if agents else "observation"
        mask = Box(0, 1, (*shape, 3), np.int8)
        parts = {self._key: Box(-99, 99, (*shape, 1)), "action_mask": mask}
        parts |= {"global_state": Box(-99, 99, shape)} if agents else {}
        self.single_observation_space = Dict(parts)  # type: ignore[arg-type]
        self.single_action_space = MultiDiscrete([3] * agents) if agents else ACTIONS
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _observe(self, place: Tensor) -> dict[str, Tensor]:
        mask = torch.ones(*place.shape, 3, dtype=torch.int8)
        mask[..., 2] = place < 1
        obs = {self._key: place.unsqueeze(-1).clone(), "action_mask": mask}
        return obs | ({"global_state": place.clone()} if self._agents else {})

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._place = torch.zeros(self.observation_space[self._key].shape[:-1])  # type: ignore[index]
        self._time = 0
        return self._observe(self._place), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert not ((actions == 2) & (self._place >= 1)).any()
        last, self._time = self._place + actions - 1, self._time + 1
        ended = torch.full((self.num_envs,), self._time == LIMIT)
        self._place, self._time = last * (self._time < LIMIT), self._time % LIMIT
        reward, never = last.reshape(self.num_envs, -1).mean(1), torch.zeros(self.num_envs, dtype=torch.bool)
        return self._observe(self._place), reward, never, ended, {"final_obs": self._observe(last)}


@ENV_REGISTRY.register("climb")
class Climb:
    config: ClassVar[dict[str, Any]] = {"agents": 0}

    @classmethod
    def make_batched(cls, cfg_env: Any, num_envs: int, device: torch.device) -> VectorEnv:
        return Climbers(num_envs, cfg_env.agents)


@pytest.mark.parametrize(
    ("policy", "agents"), [("dqn", 0), ("ppo", 0), ("mappo", 2), ("qmix", 2), ("coma", 2), ("several dqn", 2)]
)
def test_masks_are_obeyed_by_one_agent_and_by_several(policy: str, agents: int) -> None:
    several, _, name = policy.rpartition(" ")
    env = dict(agents=agents, collector_env_num=8, evaluator_env_num=2, n_evaluator_episode=2, stop_value=None)
    own: dict[str, Any] = dict(multi_agent=True) if several else {}
    own |= dict(collect=dict(n_sample=256)) if name in ("ppo", "mappo") else {}
    main = dict(exp_name="climb", env=env, policy=own)
    create_config = dict(env=dict(type="climb"), env_manager=dict(type="batched"), policy=dict(type=name))
    pipeline = serial_pipeline if name in ("dqn", "qmix") else serial_pipeline_onpolicy
    trained = pipeline((main, create_config), seed=0, max_env_step=400)
    assert trained.iteration > 0
