"""A loaded policy acts as the run's evaluator does, and its actions are those of the environment."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import ding_lite
from ding_lite.entry import evaluate_checkpoint
from ding_lite.envs import episode_monitor
from ding_lite.policy import Policy
from ding_lite.run.setup import RunSetup, prepare_run
from ding_lite.trained.acting import AgentError
from ding_lite.trained.agent import Agent, play_episodes
from ding_lite.utils import CheckpointError, ConfigError, save_checkpoint
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves, tree_map
from tests.distributed import parity
from tests.policy.helpers import KINDS
from tests.toys import Toy

CASES = [(name, kind) for name, kinds in KINDS.items() for kind in kinds]


def make_setup(env: dict[str, Any], name: str, *overrides: str) -> RunSetup:
    """Return the setup of a policy with small networks."""
    default = POLICY_REGISTRY.find(name).default_config()
    model: dict[str, Any] = dict(encoder_hidden_size_list=[16, 8])
    if "actor_head_hidden_size" in default.model:
        model = dict(actor_head_hidden_size=16, critic_head_hidden_size=16)
        model |= {key: [16, 8] for key, value in default.model.items() if isinstance(value, list)}
    create = dict(env=env, policy=dict(type=name), env_manager=dict(type="base"))
    return prepare_run((dict(policy=dict(model=model)), create), overrides=overrides)


def make_agent(setup: RunSetup, policy: Policy | None = None, **state: Any) -> Agent:
    """Return an agent with the parameters of a policy, by default of a new one."""
    policy = policy or setup.create_policy(fields=("eval",))
    if policy.normalizer is not None:
        state = {"normalizer": policy.normalizer.state_dict()} | state
    return Agent(setup, {"policy": {"model": policy.model.state_dict(), **state}}, "new")


def parity_env(kind: str = "discrete") -> dict[str, Any]:
    return dict(type="parity", import_names=["tests.distributed.parity"], kind=kind)


def test_a_mask_may_have_the_form_of_the_environment_or_of_the_policy() -> None:
    agent = make_agent(make_setup(parity_env("multi_discrete") | {"masked": True}, "ppo"))
    for obs in np.random.default_rng(0).normal(size=(9, 4)):
        for joined, rows_DA in (([0, 0, 1, 1, 0], [[0, 0, 1], [1, 0, 0]]), ([0, 1, 0, 0, 1], [[0, 1, 0], [0, 1, 0]])):
            for mask in (joined, rows_DA):
                for deterministic in (True, False):
                    action = agent.act({"observation": obs, "action_mask": mask}, deterministic)
                    assert action.tolist() == np.argmax(rows_DA, -1).tolist()


def rows(action: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in tree_leaves(action)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_policy_acts_alone_and_in_batches_as_its_eval_mode(name: str, kind: str) -> None:
    folds = kind == "agents" and "multi_agent" in POLICY_REGISTRY.find(name).default_config()
    setup = make_setup(parity_env(kind), name, *["policy.multi_agent=True"] * folds)
    policy = setup.create_policy(fields=("eval",))
    agent, env = make_agent(setup, policy), make_agent(setup, policy).make_env()
    obs_N = parity.observations("mappo" if folds else name, 5, np.float32, kind == "agents")
    each = [tree_map(lambda leaf, n=n: leaf[n], obs_N) for n in range(5)]
    batch = agent.act(obs_N)
    # every Box here is -1..1, so that what the policy chooses is what the environment takes
    expected = tree_map(lambda leaf: leaf.numpy(), policy.act(obs_N, explore=False)["action"])
    for got, want in zip(rows(batch), rows(expected), strict=True):
        np.testing.assert_array_equal(got, want)
    for n in range(5):
        agent.reset()
        action = agent.act(tree_map(torch.from_numpy, each[n]))
        assert env.action_space.contains(action)
        for got, all_N in zip(rows(action), rows(batch), strict=True):
            np.testing.assert_allclose(got, all_N[n], atol=1e-5)
    agent.reset()
    if kind in parity.OF_AGENTS:
        seen_N = {key: leaf for key, leaf in obs_N.items() if key != "global_state"}
        np.testing.assert_array_equal(agent.act(seen_N), batch)
        agent.reset()
    assert all(env.action_space.contains(agent.act(obs, deterministic=False)) for obs in each)


# Loading.


@pytest.mark.usefixtures("run_directory")
def test_a_run_is_loaded_without_its_config_and_plays_as_it_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    agent = ding_lite.load("run")
    capsys.readouterr()
    assert agent.evaluate(8, seed=3) == evaluate_checkpoint(
        "run/total_config.py", "run/ckpt/ckpt_best.pth.tar", 3, 8
    )  # fmt: skip
    assert capsys.readouterr().out.count("return") == 1  # the agent prints nothing
    assert len(agent.evaluate()["returns"]) == agent.config.env.n_evaluator_episode == 5
    assert agent.policy.device.type == "cpu"
    for path in ("run/ckpt", "run/ckpt/ckpt_last.pth.tar"):
        assert ding_lite.load(path, device="cpu").make_env().action_space.contains(agent.act([0.0] * 4))
    for episodes, seed, message in (
        (0, None, "at least one episode"),
        (1.5, None, "at least one episode to evaluate, got 1.5"),
        (2, -1, "seed: expected a whole number of at least 0, got -1"),
        (2, 0.5, "seed: expected a whole number of at least 0, got 0.5"),
    ):
        with pytest.raises(ConfigError, match=message):
            agent.evaluate(episodes, seed)  # type: ignore[arg-type]


def test_an_episode_that_does_not_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_monitor, "LONGEST_EPISODE", 30)  # too few for the car, which gets -1 in each step
    agent = make_agent(make_setup(dict(env_id="MountainCar-v0", max_episode_steps=0), "dqn"))
    assert list(itertools.islice(play_episodes(agent, agent.make_env(), 0), 2)) == [(-30.0, 30)] * 2


@pytest.mark.usefixtures("run_directory")
def test_loading_and_evaluating_leave_random_numbers_and_threads_alone() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    ding_lite.load("run").evaluate(2)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert sorted(os.listdir()) == ["run"]


@pytest.mark.usefixtures("run_directory")
def test_what_cannot_be_loaded_is_named() -> None:
    Path("apart").mkdir()
    Path("apart/one.pth.tar").write_bytes(Path("run/ckpt/ckpt_best.pth.tar").read_bytes())
    Path("run/ckpt/broken.pth.tar").write_bytes(b"PK")
    save_checkpoint("run/ckpt/foreign.pth.tar", {"policy": {"model": {}}})
    for path, error, message in (
        ("gone", ConfigError, "'gone' does not exist"),
        ("apart", ConfigError, "'apart' holds no ckpt_best.pth.tar"),
        ("apart/one.pth.tar", ConfigError, "is not in the ckpt folder of an experiment: put it there"),
        ("run/ckpt/broken.pth.tar", CheckpointError, "Cannot read checkpoint"),
        ("run/ckpt/foreign.pth.tar", CheckpointError, "does not fit the config's policy and model"),
    ):
        with pytest.raises(error, match=message):
            ding_lite.load(path)
    with pytest.raises(ConfigError, match="device: expected one of"):
        ding_lite.load("run", device="gpu")


# Observations and actions.


@ENV_REGISTRY.register("agent_spaces")
class Spaces(Toy):
    """Observations and actions of chosen spaces."""

    config = dict(observation="label", action="box")
    observations = {
        "label": gymnasium.spaces.Discrete(6, start=2),
        "image": gymnasium.spaces.Box(0, 255, (40, 36, 3), np.uint8),
        "dict": gymnasium.spaces.Dict(place=gymnasium.spaces.Box(-9, 9, (3,)), kind=gymnasium.spaces.Discrete(4)),
        "vector": gymnasium.spaces.Box(-9, 9, (3,)),
    }
    actions = {
        "box": gymnasium.spaces.Box(np.array([-3, 0], np.float32), np.array([1, 10], np.float32)),
        "late": gymnasium.spaces.Discrete(3, start=5),
        "several": gymnasium.spaces.MultiDiscrete([2, 3, 4]),
        "bits": gymnasium.spaces.MultiBinary((2, 2)),
    }

    def __init__(self, cfg_env: Any) -> None:
        self.observation_space = self.observations[cfg_env.observation]
        self.action_space = self.actions[cfg_env.action]
        self.observation_space.seed(0)

    def observe(self) -> Any:
        return self.observation_space.sample()

    def play(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return (0.0,)


def spaces_agent(observation: str, action: str = "box", *overrides: str, policy: str = "") -> Agent:
    env = dict(type="agent_spaces", import_names=[__name__], observation=observation, action=action)
    image = ["policy.model.encoder_hidden_size_list=[4,4,4,8]"] if observation == "image" else []
    policy = policy or {"late": "dqn"}.get(action, "ppo")
    return make_agent(make_setup(env, policy, *image, *overrides))


@pytest.mark.parametrize("observation", ["label", "image", "dict", "vector"])
def test_observations_are_taken_converted_or_as_the_plain_environment_gives_them(observation: str) -> None:
    agent = spaces_agent(observation)
    env = agent.make_env()
    obs, plain = env.reset(seed=0)[0], env.unwrapped
    converted = [obs] + [env.step(agent.act(obs))[0] for _ in range(3)]
    plain.observation_space.seed(0)
    raw = [plain.observation_space.sample() for _ in range(4)]  # the same ones
    actions = [agent.act(one) for one in converted]
    for one, action in zip(raw, actions, strict=True):
        np.testing.assert_array_equal(agent.act(one), action)
        tensors = tree_map(torch.as_tensor, dict(one) if isinstance(one, dict) else one)
        np.testing.assert_array_equal(agent.act(tensors), action)
    for batch in (stack(converted), stack(raw)):
        np.testing.assert_allclose(agent.act(batch), np.stack(actions), atol=1e-5)


def stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: stack([one[key] for one in observations]) for key in observations[0]}
    return np.stack(observations)


def test_actions_are_scaled_and_clipped_to_the_bounds() -> None:
    agent = spaces_agent("vector")
    chosen = {"action": torch.tensor([[-1.0, 1.0], [0.0, 0.0], [7.0, 0.2]])}
    agent.policy._forward_eval = lambda obs: chosen  # type: ignore[method-assign]
    # -1..1 to -3..1 and to 0..10: 0 is -1 and 5, 0.2 is 6, and 7 is clipped to 1
    np.testing.assert_allclose(agent.act(np.zeros((3, 3))), [[-3, 10], [-1, 5], [1, 6]], rtol=1e-6)
    assert agent.act(np.zeros((3, 3))).dtype == np.float32


@pytest.mark.parametrize(
    ("observation", "given", "message"),
    [
        ("vector", np.zeros(4), r"an array of shape \[3\], or a batch .* got shape \[4\]"),
        ("vector", np.zeros((0, 3)), r"got shape \[0, 3\]"),
        ("vector", ["a", "b", "c"], "another kind of values"),
        ("vector", "x", r"with one more leading dimension, got str 'x'\.$"),
        ("vector", [[1], [1, 2]], r"got list \[\[1\], \[1, 2\]\]\.$"),
        ("dict", {}, r"got an empty dict\.$"),
        ("image", np.zeros((3, 40, 36)), "observations of uint8"),
        ("dict", {"place": np.zeros(3)}, r"a dict of 'kind' \[4\], 'place' \[3\] or a dict of .*got 'place' \[3\]"),
        ("dict", {"place": np.zeros((2, 3)), "kind": np.zeros((3, 4))}, r"got 'place' \[2, 3\], 'kind' \[3, 4\]"),
    ],
)
def test_other_observations_are_refused_in_one_line(observation: str, given: Any, message: str) -> None:
    agent = spaces_agent(observation)
    with pytest.raises(AgentError, match=message):
        agent.act(given)


def test_observations_are_normalised_by_the_statistics_of_the_checkpoint() -> None:
    setup = make_setup(parity_env(), "ppo", "env.norm_obs=True")
    policy = setup.create_policy(fields=("eval",))
    statistics = {
        "obs.mean": torch.full((4,), 3.0),
        "obs.var": torch.full((4,), 4.0),
        "obs.count": torch.full((4,), 9.0),
    }
    assert policy.normalizer is not None
    known = policy.normalizer.state_dict()
    statistics = {key: statistics.get(key, value).to(value.dtype).reshape(value.shape) for key, value in known.items()}
    agent = make_agent(setup, policy, normalizer=statistics)
    plain_policy = make_setup(parity_env(), "ppo").create_policy(fields=("eval",))
    plain_policy.model.load_state_dict(policy.model.state_dict())
    plain = make_agent(make_setup(parity_env(), "ppo"), plain_policy)
    obs_N = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    # (x - 3) / 2 without normalisation is x with it
    np.testing.assert_array_equal(agent.act(obs_N), plain.act((obs_N - 3) / 2))
    assert len(agent.evaluate(2)["returns"]) == 2  # with these statistics


# Exploring.


def test_greedy_is_greedy_in_any_evaluator_and_exploring_follows_the_env_step() -> None:
    setup = make_setup(parity_env(), "dqn", "policy.eval.eps=1.0", "policy.other.eps.end=0.0")
    agent = make_agent(setup)
    obs_N = np.random.default_rng(0).normal(size=(200, 4))
    best = agent.act(obs_N)
    np.testing.assert_array_equal(agent.act(obs_N), best)
    np.testing.assert_array_equal(agent.act(obs_N, deterministic=False), best)  # long trained: epsilon is its end, 0
    state = {"policy": {"model": agent.policy.model.state_dict()}, "collector": {"envstep": 0}}
    assert (Agent(setup, state, "new").act(obs_N, deterministic=False) != best).mean() > 0.3  # epsilon is 0.95


def test_exploring_has_the_temperature_that_was_learned() -> None:
    keys = ("policy.learn.alpha=100.0", "policy.other.eps.start=0.0", "policy.other.eps.end=0.0")
    setup = make_setup(parity_env(), "sqn", *keys)
    policy: Any = setup.create_policy()
    with torch.no_grad():
        policy._alpha.learned.fill_(-20.0)  # a temperature of 2e-9, at which the softmax is the argmax
    obs_N = np.random.default_rng(0).normal(size=(200, 4))
    agent = Agent(setup, {"policy": policy.state_dict()}, "new")
    np.testing.assert_array_equal(agent.act(obs_N, deterministic=False), agent.act(obs_N))
    initial = make_agent(setup, policy)  # of a state with the model alone
    assert (initial.act(obs_N, deterministic=False) != initial.act(obs_N)).mean() > 0.3


# Memory.


def recurrent_agent() -> Agent:
    return make_agent(make_setup(parity_env(), "r2d2", "policy.model.lstm_type=pytorch"))


def logits(agent: Agent, obs_N: np.ndarray) -> list[float]:
    """Act once; return the values of the actions, in which one sees what the policy remembers."""
    found: list[Any] = []
    plain = agent.policy._forward_eval

    def forward(obs: Any) -> dict[str, Any]:
        found.append(plain(obs))
        return found[0]

    agent.policy._forward_eval = forward  # type: ignore[method-assign]
    agent.act(obs_N)
    agent.policy._forward_eval = plain  # type: ignore[method-assign]
    return found[0]["logit"].tolist()


def test_the_recurrent_state_is_kept_until_reset() -> None:
    agent, obs_N = recurrent_agent(), np.ones((3, 4), np.float32)
    first, second = logits(agent, obs_N), logits(agent, obs_N)
    assert first != second
    agent.reset([True, False, False])
    third = logits(agent, obs_N)
    assert third[0] == pytest.approx(first[0])  # as at the beginning
    assert third[1] != pytest.approx(first[1])
    agent.reset()
    assert logits(agent, obs_N) == first
    agent.reset()
    agent.act(obs_N[0])  # another number of rows


def test_recurrent_policies_refuse_what_would_mix_episodes() -> None:
    agent, obs_N = recurrent_agent(), np.ones((3, 4), np.float32)
    agent.act(obs_N)
    with pytest.raises(AgentError, match="recurrent: expected 3 observations, got 2; call reset"):
        agent.act(obs_N[:2])
    with pytest.raises(AgentError, match="the same value of deterministic"):
        agent.act(obs_N, deterministic=False)
    with pytest.raises(AgentError, match=r"a mask of shape \[3\], got \[2\]"):
        agent.reset([True, False])
    agent.act(obs_N)  # the episodes go on
