"""What a trained policy does, recorded: each row is a step that the environment really makes."""

from __future__ import annotations

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.entry import collect_demo_data
from ding_lite.envs.actions import ActionUnits
from ding_lite.model import VAC
from ding_lite.policy import PPOPolicy
from ding_lite.run.setup import prepare_run
from ding_lite.utils import CheckpointError, ConfigError, load_checkpoint
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.worker import DatasetError, read_dataset
from tests.run.helpers import pair
from tests.survival.common import differences
from tests.toys import Toy

cartpole_ppo_config = import_module("dizoo.classic_control.cartpole.config.cartpole_ppo_config")

h5py = pytest.importorskip("h5py")
BEST = "run/ckpt/ckpt_best.pth.tar"
SHORT = ["exp_name=run", "env.max_episode_steps=15"]


@pytest.fixture(autouse=True)
def experiment(trained: Path, empty_directory: Path) -> None:
    (empty_directory / "run").symlink_to(trained)


def best_policy() -> Any:
    """Return the policy of the experiment as it was at its best."""
    policy = prepare_run(pair(), overrides=SHORT).create_policy()
    policy.model.load_state_dict(load_checkpoint(BEST)["policy"]["model"])
    return policy


def record(path: str = "demo.hdf5", count: int = 100, seed: int = 0, **options: Any) -> dict[str, Any]:
    options = {"overrides": SHORT, **options}
    return collect_demo_data(pair(), seed, count, path, **options)


def read(path: str) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {key: column[()] for key, column in file.items()} | {"attributes": dict(file.attrs)}


def check_against_cartpole(data: dict[str, np.ndarray]) -> None:
    """Put CartPole into each row's state, and compare what its action leads to."""
    env: Any = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    for obs, action, next_obs, done, reward in zip(
        *(data[key] for key in ("obs", "action", "next_obs", "done", "reward")), strict=True
    ):
        env.state, env.steps_beyond_terminated = obs.astype(np.float64), None
        expected, true_reward, terminated, *_ = env.step(int(action))
        np.testing.assert_allclose(next_obs, expected, atol=1e-5)
        assert (done, reward) == (terminated, true_reward)


def test_every_row_is_a_true_step_chosen_as_in_evaluation() -> None:
    torch.set_num_threads(2)
    figures = record()
    assert torch.get_num_threads() == 2  # the small network had one
    data = read("demo.hdf5")
    assert len(data["obs"]) == 100
    check_against_cartpole(data)
    assert np.array_equal(data["action"], best_policy().act(data["obs"], explore=False)["action"])
    goes_on = ~data["traj_flag"][:-1]
    assert np.array_equal(data["next_obs"][:-1][goes_on], data["obs"][1:][goes_on])
    truncated = data["traj_flag"] & ~data["done"]
    assert truncated[-1]
    ends = np.flatnonzero(data["traj_flag"])
    lengths = np.diff(ends, prepend=-1)
    cut = ~data["done"][ends] & (lengths < 15)  # neither ended nor met the time limit
    assert cut[-1]
    assert not cut.all()
    assert np.array_equal(data["unfinished"], cut.repeat(lengths))
    assert 1 < data["done"].sum() + truncated.sum() < 50
    about: Any = data["attributes"]
    assert (about["env_id"], about["policy"], about["seed"], about["explore"]) == ("CartPole-v0", "dqn", 0, False)
    assert about["source"] == BEST
    assert about["return_mean"] == figures["return_mean"] < 16
    assert about["transitions"] == figures["transitions"] == 100


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("path", ["demo.npz", "cartpole/cut-v0"])
def test_what_the_end_of_a_recording_cuts_gives_no_returns(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.endswith("-v0"):
        pytest.importorskip("minari")
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    record(path)
    record("same.hdf5")
    pieces, same = read_dataset(path, length=5), read("same.hdf5")
    assert pieces.left_out == same["unfinished"].sum() > 0
    batch = pieces.gather(torch.arange(len(pieces)))
    finished = same["obs"][~same["unfinished"]]
    assert np.array_equal(batch["obs"][:, 0], finished)


def test_whole_episodes_only(capsys: pytest.CaptureFixture[str]) -> None:
    figures = record(count=6, collect_episodes=True)
    data = read("demo.hdf5")
    ends = np.flatnonzero(data["traj_flag"])
    lengths = np.diff(ends, prepend=-1)
    assert len(ends) == figures["episodes"] == 6
    assert len(data["obs"]) == lengths.sum() == figures["transitions"]
    assert figures["return_mean"] == pytest.approx(lengths.mean())
    assert ((lengths == 15) | data["done"][ends]).all()
    check_against_cartpole(data)
    assert not data["unfinished"].any()
    assert (
        f"{lengths.sum()} transitions, 6 episodes with mean return {lengths.mean():.2f}: demo.hdf5"
        in capsys.readouterr().out
    )


def test_the_config_may_say_where_the_data_go_as_in_di_engine() -> None:
    main, create = pair()
    with pytest.raises(ConfigError, match=r"give expert_data_path, or policy\.collect\.save_path in the config"):
        collect_demo_data((main, create), 0, 20, overrides=SHORT)
    main["policy"]["collect"]["save_path"] = "mine.hdf5"
    collect_demo_data((main, create), 0, 20, overrides=SHORT)
    assert len(read("mine.hdf5")["reward"]) == 20


def test_seed_and_exploration() -> None:
    ways: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "c": {"seed": 1}, "d": {"explore": True}}
    for name, options in ways.items():
        record(f"{name}.hdf5", **options)
    a, b, c, d = (read(f"{name}.hdf5") for name in "abcd")
    assert all(np.array_equal(a[key], b[key]) for key in ("obs", "action", "traj_flag"))
    assert not np.array_equal(a["obs"], c["obs"])
    assert np.array_equal(a["obs"][0], d["obs"][0])
    assert not np.array_equal(a["action"], d["action"])


def test_the_policy_may_be_given_in_several_ways() -> None:
    state = load_checkpoint(BEST)
    ways: list[dict[str, Any]] = [
        {"state_dict_path": BEST},
        {"state_dict": state},
        {"state_dict": state["policy"]},
        {"state_dict": state["policy"]["model"]},
        {"model": best_policy().model},
    ]
    actions = []
    for number, way in enumerate(ways):
        record(f"{number}.hdf5", **way)
        actions.append(read(f"{number}.hdf5")["action"].tolist())
    assert all(other == actions[0] for other in actions)


@pytest.mark.parametrize("explore", [False, True])
def test_a_given_model_is_recorded_as_it_is_and_nothing_that_learns_is_built(
    explore: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PPO initialises the model that it learns with. The head below always prefers action 1.
    monkeypatch.setattr(PPOPolicy, "_init_learn", lambda _: pytest.fail("recording learns nothing"))
    config = (copy.deepcopy(cartpole_ppo_config.main_config), copy.deepcopy(cartpole_ppo_config.create_config))
    model: Any = VAC(4, 2)
    with torch.no_grad():
        model.actor_head[1].weight.zero_()
        model.actor_head[1].bias.copy_(torch.tensor([-50.0, 50.0]))
    before = copy.deepcopy(model.state_dict())
    collect_demo_data(config, 0, 64, "demo.hdf5", model=model, explore=explore)
    assert not differences(model.state_dict(), before)
    assert read("demo.hdf5")["action"].tolist() == [1] * 64


def test_what_cannot_be_recorded() -> None:
    with pytest.raises(ConfigError, match=r"'other/ckpt/ckpt_best.pth.tar' does not exist. Give state_dict_path"):
        record(overrides=["exp_name=other"])
    with pytest.raises(CheckpointError, match="does not fit the config's policy and model"):
        record(state_dict={"weight": torch.zeros(3)})
    with pytest.raises(ConfigError, match="collect_count=0: expected at least 1"):
        record(count=0)
    with pytest.raises(DatasetError, match=r"'demo.pkl': expected a name that ends with .hdf5, .h5, .npz"):
        record("demo.pkl")
    Path("taken").mkdir()
    with pytest.raises(DatasetError, match="Directory 'taken' exists already"):
        record("taken")


class Mirror(Toy):
    """Its observation is the action that it got, its numbers in a row."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self.action_space, self.seen = space, 0 * _flat(space.sample())
        self.observation_space = Box(-99, 99, (len(self.seen),), np.float32)

    def begin(self) -> None:
        self.seen = 0 * self.seen

    def play(self, action: Any) -> Any:
        self.seen = _flat(action)
        return (0.0,)


def _flat(action: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in tree_leaves(action)], dtype=np.float32)


ARGS = Box(np.array([-0.4, 3], np.float32), np.array([0.4, 3], np.float32))  # the second is always 3


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", ["demo.npz", "demo.hdf5", "demo", "mirror/test-v0"])
@pytest.mark.parametrize(
    "space",
    [
        Discrete(3, start=1),
        MultiDiscrete(np.array([[2, 3], [2, 2]]), start=np.array([[0, 1], [5, 0]])),
        MultiBinary(3),
        Box(0, 9, (2,), np.int64),
        ARGS,
        Dict({"action_type": Discrete(3, start=1), "action_args": ARGS}),
    ],
    ids=lambda space: type(space).__name__,
)
def test_a_data_set_holds_what_the_environment_got_and_gives_what_the_policy_did(
    space: Any, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "mirror/test-v0":
        pytest.importorskip("minari")
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    main = dict(env=dict(max_episode_steps=10), policy=dict(model=dict(encoder_hidden_size_list=[8])))
    create = dict(env=dict(type="gymnasium", env_id="any"), policy=dict(type="pg"))
    build = lambda _: Mirror(space)  # noqa: E731
    setting: Any = (build, [{}], [{}])
    setup = prepare_run((main, create), 0, setting)
    model = setup.create_policy().model
    collect_demo_data((main, create), 0, 20, path, setting, model, explore=True, collect_episodes=True)
    dataset = read_dataset(path)
    steps = ~dataset.columns.get("padding", torch.zeros(len(dataset.columns["reward"]), dtype=torch.bool))
    held = tree_map(lambda leaf: leaf[steps].numpy(), dataset.columns["action"])
    got = dataset.gather(torch.arange(len(dataset)))["next_obs"]
    assert np.array_equal([_flat(tree_map(lambda leaf, n=n: leaf[n], held)) for n in range(len(got))], got)
    units = ActionUnits(space)
    dataset.fit(setup.spec.observation_space, units)
    chosen = tree_map(lambda leaf: leaf[steps].numpy(), dataset.columns["action"])
    assert units.space.contains(tree_map(lambda leaf: leaf[0], chosen))
    for again, meant in zip(tree_leaves(units.to_env(chosen)), tree_leaves(held), strict=True):
        np.testing.assert_allclose(again, meant, rtol=1e-6)
