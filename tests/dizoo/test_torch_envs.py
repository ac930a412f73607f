"""The torch programs of classic control: each step against gymnasium's, and what every vector environment must do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RescaleObservation
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ding_lite.config import compile_config
from ding_lite.envs.batched import create_batched
from ding_lite.policy import create_policy
from ding_lite.trained.rendering import _drawing_offscreen
from ding_lite.utils import ENV_REGISTRY
from ding_lite.utils.registry import ConfigError
from ding_lite.worker import SampleCollector
from dizoo.classic_control.acrobot.envs.acrobot_torch import AcrobotTorch
from dizoo.classic_control.cartpole.envs.cartpole_env import CartPoleEnv
from dizoo.classic_control.cartpole.envs.cartpole_torch import CartPoleTorch
from dizoo.classic_control.mountain_car.envs.mtcar_torch import MountainCarTorch
from dizoo.classic_control.pendulum.envs.pendulum_torch import PendulumTorch
from dizoo.classic_control.torch_env import TorchVectorEnv
from tests.dizoo.test_envs import make_cfg


class Game(NamedTuple):
    """An environment: its torch program, gymnasium's id, and what gymnasium observes of states, in float64."""

    torch: type[TorchVectorEnv]
    env_id: str
    observe: Callable[[np.ndarray], np.ndarray]
    spread: tuple[float, ...]  # bounds of the states that an episode of the comparison begins with
    limit: int  # env steps of an episode of the comparison
    ends: set[tuple[bool, bool]]  # how such episodes end: terminated, truncated


def observe_pendulum(state: np.ndarray) -> np.ndarray:
    theta, omega = np.moveaxis(state, -1, 0)
    return np.stack([np.cos(theta), np.sin(theta), omega], -1)


def observe_acrobot(state: np.ndarray) -> np.ndarray:
    first, second, *speeds = np.moveaxis(state, -1, 0)
    return np.stack([np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds], -1)


TERMINATED, TRUNCATED = (True, False), (False, True)
GAMES = {
    "cartpole": Game(CartPoleTorch, "CartPole-v1", np.asarray, (2.0, 1.0, 0.15, 1.0), 500, {TERMINATED}),
    "pendulum": Game(PendulumTorch, "Pendulum-v1", observe_pendulum, (np.pi, 8.0), 200, {TRUNCATED}),
    # Chaotic: where there is much energy, rounding differences of 1e-16 grow to 1e-9 in about 80 steps. A test of its
    # own compares each step of longer episodes.
    "acrobot": Game(AcrobotTorch, "Acrobot-v1", observe_acrobot, (1.5, 1.5, 3.0, 5.0), 40, {TERMINATED, TRUNCATED}),
    "mountain_car": Game(MountainCarTorch, "MountainCar-v0", np.asarray, (0.5, 0.07), 200, {TERMINATED, TRUNCATED}),
}
EVERY = pytest.mark.parametrize("name", GAMES)


def place(env: TorchVectorEnv, state: np.ndarray | Tensor) -> None:
    """Set the states, `[N, S]`."""
    env.load_state_dict(env.state_dict() | {"state": torch.as_tensor(state, dtype=env.dtype).t()})


def draw_actions(env: TorchVectorEnv, steps: int, seed: int = 0) -> Tensor:
    """Draw actions for all environments, `[steps, N]` or `[steps, N, 1]`."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(env.single_action_space, gymnasium.spaces.Discrete):
        return torch.randint(0, int(env.single_action_space.n), (steps, env.num_envs), generator=generator)
    shape = (steps, env.num_envs, 1)
    return torch.rand(shape, generator=generator, dtype=torch.float64) * 6 - 3  # some are beyond the bounds, 2


def draw_states(env: TorchVectorEnv, game: Game) -> np.ndarray:
    """Draw the states that episodes begin with, `[N, S]`: one half as the environment does, the other further away."""
    state = env.state_dict()["state"].t().numpy().copy()
    half = len(state) // 2
    state[half:] = np.random.default_rng(0).uniform(-1, 1, (len(state) - half, state.shape[1])) * game.spread
    if game.torch is MountainCarTorch:
        state[half:, 0] -= 0.3
    return state


def play_gymnasium(game: Game, states: np.ndarray, actions: np.ndarray, **kwargs: Any) -> list[list[np.ndarray]]:
    """Play one episode from each state, and return each one's states, observations, rewards, terminated, truncated."""
    env = gymnasium.make(game.env_id, max_episode_steps=game.limit, disable_env_checker=True, **kwargs)
    inner: Any = env.unwrapped
    episodes = []
    for number, state in enumerate(states):
        env.reset()
        inner.state = state.copy()
        rows = []
        for action in actions[:, number]:
            obs, reward, terminated, truncated, _ = env.step(action)
            rows.append((np.array(inner.state), obs, reward, terminated, truncated))
            if terminated or truncated:
                break
        episodes.append([np.array(column) for column in zip(*rows, strict=True)])
    env.close()
    return episodes


def play_torch(env: TorchVectorEnv, states: np.ndarray, actions: Tensor) -> list[np.ndarray]:
    """Return final_obs, reward, terminated and truncated of all steps, `[steps, N, ...]`."""
    env.reset()
    place(env, states)
    rows = [(info["final_obs"], *flags) for _, *flags, info in map(env.step, actions)]
    return [torch.stack(column).numpy() for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("name", "episodes", "kwargs"),
    [
        *((name, 1000, {}) for name in GAMES),
        ("cartpole", 100, {"sutton_barto_reward": True}),
        ("pendulum", 100, {"g": 4.0}),
        ("mountain_car", 100, {"goal_velocity": 0.02}),
    ],
)
def test_every_step_is_gymnasiums(name: str, episodes: int, kwargs: dict[str, Any]) -> None:
    game = GAMES[name]
    env = game.torch(episodes, dtype=torch.float64, max_episode_steps=game.limit, **kwargs)
    env.reset(seed=0)
    states, actions = draw_states(env, game), draw_actions(env, game.limit)
    expected = play_gymnasium(game, states, actions.numpy(), **kwargs)
    found = play_torch(env, states, actions)
    ends = set()
    for number, (state, obs, reward, terminated, truncated) in enumerate(expected):
        ours = [column[: len(state), number] for column in found]
        np.testing.assert_allclose(ours[0], game.observe(state), rtol=0, atol=1e-9)
        np.testing.assert_allclose(ours[0], obs, rtol=0, atol=1e-5)  # which gymnasium rounds to float32
        np.testing.assert_allclose(ours[1], reward, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(ours[2], terminated)
        np.testing.assert_array_equal(ours[3], truncated)
        ends.add((bool(terminated[-1]), bool(truncated[-1])))
    assert ends >= game.ends


@EVERY
def test_every_step_of_long_episodes_is_gymnasiums_from_the_same_state(name: str) -> None:
    game = GAMES[name]._replace(limit=500)
    env = game.torch(20, dtype=torch.float64)
    env.reset(seed=0)
    actions = draw_actions(env, game.limit)
    episodes = play_gymnasium(game, draw_states(env, game), actions.numpy())
    before = np.concatenate([state[:-1] for state, *_ in episodes])
    after = np.concatenate([state[1:] for state, *_ in episodes])
    taken = torch.cat([actions[1 : len(state), number] for number, (state, *_) in enumerate(episodes)])
    env = game.torch(len(before), dtype=torch.float64)
    place(env, before)
    *_, info = env.step(taken)
    np.testing.assert_allclose(info["final_obs"], game.observe(after), rtol=0, atol=1e-12)
    assert len(before) >= (100 if name == "cartpole" else 1500)


@EVERY
def test_constructor_and_spaces_are_gymnasiums(name: str) -> None:
    game = GAMES[name]
    env, original = game.torch(3), gymnasium.make(game.env_id)
    assert original.spec is not None
    assert env.max_episode_steps == env.metadata["max_episode_steps"] == original.spec.max_episode_steps
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert env.single_observation_space == original.observation_space
    assert env.single_action_space == original.action_space
    assert env.observation_space.shape == (3, *(env.single_observation_space.shape or ()))
    assert env.action_space.shape == (3, *(env.single_action_space.shape or ()))
    double = game.torch(3, dtype=torch.float64)
    assert double.single_observation_space.dtype == np.float64
    for venv in (env, double):
        obs, info = venv.reset(seed=1)
        assert obs.numpy() in venv.observation_space
        assert info == {}
        obs, reward, terminated, truncated, info = venv.step(draw_actions(venv, 1)[0])
        assert obs.numpy() in venv.observation_space
        assert obs.dtype == reward.dtype == info["final_obs"].dtype == venv.dtype
        assert terminated.dtype == truncated.dtype == torch.bool
        assert reward.shape == terminated.shape == truncated.shape == (3,)


@EVERY
def test_where_an_episode_ends_the_next_one_begins(name: str) -> None:
    env = GAMES[name].torch(64, max_episode_steps=5)
    first, _ = env.reset(seed=0)
    bound = first.abs().amax(0) * 2 + 0.1
    for step, action in enumerate(draw_actions(env, 12), start=1):
        before = env.elapsed_steps
        obs, _, terminated, truncated, info = env.step(action)
        ended = terminated | truncated
        assert torch.equal(truncated, before == 4)
        assert torch.equal(env.elapsed_steps, torch.where(ended, 0, before + 1))
        assert torch.equal(obs[~ended], info["final_obs"][~ended])
        if step in (5, 10):
            assert ended.any()
            assert (obs[ended] != info["final_obs"][ended]).any(1).all()
            assert (obs[ended].abs() <= bound).all()
    assert not torch.equal(env.reset()[0], first)


@EVERY
def test_no_limit_is_zero(name: str) -> None:
    env = GAMES[name].torch(2, max_episode_steps=0)
    assert env.metadata["max_episode_steps"] is None
    assert not any(env.step(action)[3].any() for action in draw_actions(env, 600))


@EVERY
def test_a_seed_and_the_actions_determine_the_results(name: str) -> None:
    first, second, other = (GAMES[name].torch(16, max_episode_steps=7) for _ in range(3))
    actions = draw_actions(first, 30)
    play(second, actions, seed=3)  # what was before does not count
    rows = [play(env, actions, seed) for env, seed in ((first, 5), (second, 5), (other, 6))]
    assert all(map(torch.equal, rows[0], rows[1]))
    assert not any(map(torch.equal, rows[0], rows[2]))
    assert not torch.equal(GAMES[name].torch(16).reset()[0], GAMES[name].torch(16).reset()[0]), "without a seed"


def play(env: TorchVectorEnv, actions: Tensor, seed: int | None = None) -> list[Tensor]:
    """Return all that the steps return, each as one tensor; episodes begin anew if a seed is given."""
    rows: list[Tensor] = [] if seed is None else [env.reset(seed=seed)[0]]
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        flags = torch.stack((reward, terminated, truncated), dim=1)
        rows.append(torch.cat((obs, flags, info["final_obs"]), dim=1))
    return rows


@EVERY
def test_outputs_are_tensors_of_their_own(name: str) -> None:
    """Whoever changes what a step returned changes neither the simulation nor what another step returned."""
    touched, plain = (GAMES[name].torch(8, max_episode_steps=4) for _ in range(2))
    actions = draw_actions(plain, 10)
    touched.reset(seed=0)[0].fill_(7.0)
    plain.reset(seed=0)
    for action in actions:
        *outputs, info = touched.step(action)
        *expected, expected_info = plain.step(action)
        for ours, theirs in zip((*outputs, info["final_obs"]), (*expected, expected_info["final_obs"]), strict=True):
            assert torch.equal(ours, theirs)
            ours.fill_(1)


@EVERY
def test_a_mask_resets_some_environments(name: str) -> None:
    env = GAMES[name].torch(6)
    env.reset(seed=0)
    obs = [env.step(action)[0] for action in draw_actions(env, 3)][-1]
    mask = torch.tensor([True, False, False, True, False, False])
    after, info = env.reset(options={"reset_mask": mask})
    assert info == {}
    assert torch.equal((after != obs).any(1), mask)
    assert env.elapsed_steps.tolist() == [0, 3, 3, 0, 3, 3]
    for wrong in (mask[:1], mask.int()):
        with pytest.raises(ValueError, match=r"^reset_mask: expected bool \[6\], got torch\."):
            env.reset(options={"reset_mask": wrong})


@EVERY
def test_restored_environments_go_on_with_the_same_bits(name: str) -> None:
    env, other = (GAMES[name].torch(32, max_episode_steps=9) for _ in range(2))
    actions = draw_actions(env, 40)
    play(env, actions[:12], seed=4)
    state = env.state_dict()
    rows = play(env, actions[12:])
    other.load_state_dict(state)
    assert all(map(torch.equal, rows, play(other, actions[12:])))
    env.load_state_dict(state)
    assert all(map(torch.equal, rows, play(env, actions[12:])))
    with pytest.raises(ValueError, match=r"^state: expected \[\d, 5\], got \[\d, 32\]\."):
        GAMES[name].torch(5).load_state_dict(state)


@EVERY
def test_the_first_environments_image_is_gymnasiums(name: str) -> None:
    pytest.importorskip("pygame")
    game = GAMES[name]
    with _drawing_offscreen():
        env, original = game.torch(3, dtype=torch.float64), gymnasium.make(game.env_id, render_mode="rgb_array")
        original.reset(seed=0)
        inner: Any = original.unwrapped
        images = []
        for state in draw_states(env, game):  # three states
            place(env, np.stack([state, state + 1, state]))
            inner.state = state
            (image,) = env.render()
            np.testing.assert_array_equal(image, original.render())
            images.append(image.copy())
        assert all((one != two).any() for one, two in itertools.combinations(images, 2))
        env.close()
        original.close()


@EVERY
def test_single_precision_follows_double_precision(name: str) -> None:
    game = GAMES[name]
    single, double = (game.torch(64, dtype=dtype) for dtype in (torch.float32, torch.float64))
    double.reset(seed=0)
    place(single, double.state_dict()["state"].t())
    for action in draw_actions(single, 8):
        ours, expected = single.step(action), double.step(action)
        for one, two in zip((*ours[:4], ours[4]["final_obs"]), (*expected[:4], expected[4]["final_obs"]), strict=True):
            torch.testing.assert_close(one.double(), two.double(), rtol=1e-5, atol=2e-5)
        assert not (ours[2] | ours[3]).any()


WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::index.Tensor", "aten::masked_select"}


class Recorder(TorchDispatchMode):
    """Records the names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))


@EVERY
def test_no_step_needs_a_value_on_the_host(name: str) -> None:
    """Operations that wait for a GPU: `.item()`, and those whose shape depends on values."""
    env = GAMES[name].torch(8, max_episode_steps=3)
    mask = torch.arange(8) < 3
    with Recorder() as seen:
        env.reset(seed=0)
        for action in draw_actions(env, 5):
            env.step(action)
            env.reset(options={"reset_mask": mask})
    assert "aten::where.self" in seen.names
    assert not seen.names & WAITING


class WatchedCollector(SampleCollector):
    """Runs the steps of a collect, without its beginning and its end, in a context."""

    context: Any = nullcontext()

    def _steps(self, n_sample: int | None) -> Iterator[int]:
        with self.context:
            yield from super()._steps(n_sample)


def watched(policy: str, cuda: bool = False) -> tuple[Any, WatchedCollector]:
    """Return a policy, and the collector of its eight environments, which has collected twice."""
    name, *lstm = policy.split()
    own = dict(model=dict(lstm_type="lstm") if lstm else {}, learn=dict(batch_size=32), cuda=cuda)
    main = dict(env=dict(env_id="CartPole-v1", max_episode_steps=10), policy=own)
    create_config = dict(env=dict(type="cartpole"), env_manager=dict(type="batched"), policy=dict(type=name))
    cfg = compile_config((main, create_config))
    cfg.policy.model.update(obs_shape=4, action_shape=2)
    env = create_batched(CartPoleEnv, cfg.env, 8, "cuda" if cuda else "cpu", training=True)
    built = create_policy(cfg.policy)
    collector = WatchedCollector(env, built, 8 * 40, list(range(8)))
    for _ in range(2):
        collector.collect()
    return built, collector


@pytest.mark.parametrize("policy", ["ppo", "ppo lstm", "a2c", "pqn", "dqn", "rainbow", "discrete_sac", "r2d2"])
def test_no_step_of_a_collect_needs_a_value_on_the_host(policy: str) -> None:
    _, collector = watched(policy)
    collector.context = seen = Recorder()
    collector.collect()
    assert len(seen.names) > 30
    assert not seen.names & WAITING


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["ppo", "ppo lstm", "a2c", "pqn"])
def test_neither_a_collect_nor_a_learning_step_waits_for_a_gpu(name: str) -> None:
    policy, collector = watched(name, cuda=True)
    batches = iter(policy.batches(policy.to_samples(collector.collect()[0])))
    for _ in range(4):  # graphs are captured
        policy.learn(next(batches))
    batch = next(batches)

    @contextmanager
    def errors() -> Iterator[None]:
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    collector.context = errors()
    collector.collect()
    with errors():
        policy.learn(batch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@EVERY
def test_a_gpu_computes_the_same_without_being_waited_for(name: str) -> None:
    game = GAMES[name]
    host, gpu = (game.torch(256, device, torch.float64) for device in ("cpu", "cuda"))
    host.reset(seed=0)
    place(gpu, host.state_dict()["state"].t())
    actions = draw_actions(host, 8)
    on_gpu = actions.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        rows = play(gpu, on_gpu)
        gpu.reset(options={"reset_mask": rows[-1][:, 0] > 0})
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for ours, expected in zip(rows, play(host, actions), strict=True):
        torch.testing.assert_close(ours.cpu(), expected, rtol=0, atol=1e-9)


def make_batched(name: str, num_envs: int = 4, **env: Any) -> TorchVectorEnv:
    scale = {"scale_obs": False} if name == "mountain_car" else {}
    cfg = make_cfg(name, **scale, **env)  # registers the name
    builder: Any = ENV_REGISTRY.find(name)
    made = builder.make_batched(cfg, num_envs, "cpu")
    assert isinstance(made, GAMES[name].torch)
    assert made.num_envs == num_envs
    return made


def test_a_config_chooses_id_limit_and_arguments() -> None:
    assert make_batched("cartpole").max_episode_steps == 500
    assert make_batched("cartpole", env_id="CartPole-v0").max_episode_steps == 200
    assert make_batched("acrobot", max_episode_steps=7).max_episode_steps == 7
    assert make_batched("acrobot", max_episode_steps=0).max_episode_steps == 0
    assert make_batched("pendulum", kwargs={"g": 9.81}).kwargs == {"g": 9.81}
    assert make_batched("mountain_car").single_observation_space == gymnasium.make("MountainCar-v0").observation_space


def test_scaled_observations_are_those_of_the_single_environment() -> None:
    env = MountainCarTorch(100, scale_obs=True)
    single = RescaleObservation(gymnasium.make("MountainCar-v0"), -np.ones(2, np.float32), np.ones(2, np.float32))
    assert env.single_observation_space == single.observation_space
    states = draw_states(env, GAMES["mountain_car"])
    place(env, states)
    obs, _ = env.reset(options={"reset_mask": torch.zeros(100, dtype=torch.bool)})
    expected = np.stack([single.observation(state.astype(np.float32)) for state in states])
    np.testing.assert_allclose(obs, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "key", "value", "possible"),
    [
        ("pendulum", "continuous", False, "True"),
        ("pendulum", "env_id", "CartPole-v1", "Pendulum-v1"),
        ("cartpole", "env_id", "Acrobot-v1", "CartPole-v0 or CartPole-v1"),
        ("cartpole", "kwargs", {"length": 2}, r"arguments among \['sutton_barto_reward'\]"),
        ("acrobot", "reset_options", {"low": 0.0}, "{}"),
        ("acrobot", "dynamic_seed", False, "True"),
        ("mountain_car", "wrappers", ["ClipReward"], r"\[\]"),
    ],
)
def test_a_key_that_cannot_be_obeyed_is_one_line(name: str, key: str, value: Any, possible: str) -> None:
    with pytest.raises(ConfigError, match=rf"^env\.{key}=.* only take {possible}: set that, or env_manager") as error:
        make_batched(name, **{key: value})
    assert "\n" not in str(error.value)


def test_actions_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^actions: expected \[4\], got \[4, 1\]\."):
        CartPoleTorch(4).step(torch.zeros(4, 1))
    with pytest.raises(ValueError, match=r"^actions: expected \[4, 1\], got \[4\]\."):
        PendulumTorch(4).step(torch.zeros(4))


def test_first_episodes_may_begin_at_random_steps() -> None:
    main = dict(env=dict(env_id="CartPole-v1", max_episode_steps=100), policy={})
    manager = dict(type="batched", random_elapsed_steps=True)
    create_config = dict(env=dict(type="cartpole"), env_manager=manager, policy=dict(type="ppo"))
    cfg = compile_config((main, create_config)).env
    env: Any = create_batched(CartPoleEnv, cfg, 1000, training=True)
    env.reset(seed=[3])
    first = env.unwrapped.elapsed_steps.clone()
    assert set(first.tolist()) == set(range(100))
    env.reset(seed=[3])
    assert torch.equal(env.unwrapped.elapsed_steps, first)
    *_, truncated, info = env.step(torch.zeros(1000, dtype=torch.int64))
    assert torch.equal(truncated, first == 99)
    assert (info["episode_length"] == 1).all()
    evaluation: Any = create_batched(CartPoleEnv, cfg, 10)
    evaluation.reset(seed=0)
    assert not evaluation.unwrapped.elapsed_steps.any()
