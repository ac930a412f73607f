"""Data sets: what becomes of a file's columns, worked out by hand, and what is said of files that do not fit."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.spaces import observation_side
from ding_lite.offline.dataset import SequenceDataset
from ding_lite.offline.files import write_columns
from ding_lite.utils import UserError
from ding_lite.utils.tree import tree_map
from ding_lite.worker import DatasetError, OfflineDataset, read_dataset

h5py = pytest.importorskip("h5py")

# Two trajectories: rows 0..2 end in a terminal state, rows 3..6 in a time-out. Observations are 10 times the row.
ROWS: dict[str, Any] = {
    "obs": np.arange(7, dtype=np.float64)[:, None] * 10,
    "action": np.array([0, 1, 0, 1, 0, 1, 0]),
    "reward": np.array([1.0, 2, 4, 8, 16, 32, 64]),
    "done": np.array([0, 0, 1, 0, 0, 0, 0], np.bool_),
    "traj_flag": np.array([0, 0, 1, 0, 0, 0, 1], np.bool_),
}
NEXT_OBS = np.array([10, 20, 25, 40, 50, 60, 65], np.float64)[:, None]  # 25 and 65: the true last observations


def everything(dataset: OfflineDataset) -> dict[str, Any]:
    return dataset.__getitems__(range(len(dataset)))


ALL, PLAIN, UNKNOWN = [0, 1, 2, 3, 4, 5, 6], [1, 2, 4, 8, 16, 32, 64], None
ENDS, ENDED = [0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0]  # single steps and sums of three
# Whether the file has the next observations, the options, and of each transition: the row that it starts at, the sum of
# its rewards with gamma 1/2, its steps, the next observation, whether it is terminal. Row 6 was timed out: without a
# known successor it starts nothing. Row 2 is terminal: what stands there is not used, unless done is ignored; then only
# a known successor will do.
SOME = [0, 1, 3, 4, 5]
TRANSITIONS: list[tuple[Any, ...]] = [
    (False, {}, ALL[:6], PLAIN[:6], [1] * 6, [10, 20, UNKNOWN, 40, 50, 60], ENDS[:6]),
    (True, {}, ALL, PLAIN, [1] * 7, [10, 20, 25, 40, 50, 60, 65], ENDS),
    (False, dict(nstep=3), ALL[:6], [3, 4, 4, 24, 32, 32], [3, 2, 1, 3, 2, 1], [UNKNOWN] * 3 + [60] * 3, ENDED[:6]),
    (True, dict(nstep=3), ALL, [3, 4, 4, 24, 48, 64, 64], [3, 2, 1, 3, 3, 2, 1], [25] * 3 + [60, 65, 65, 65], ENDED),
    (False, dict(ignore_done=True), SOME, [1, 2, 8, 16, 32], [1] * 5, [10, 20, 40, 50, 60], [0] * 5),
    (False, dict(ignore_done=True, nstep=2), SOME, [2, 2, 16, 32, 32], [2, 1, 2, 2, 1], [20, 20, 50, 60, 60], [0] * 5),
    (True, dict(ignore_done=True), ALL, PLAIN, [1] * 7, [10, 20, 25, 40, 50, 60, 65], ENDS),
]  # fmt: skip


@pytest.mark.parametrize(("known", "options", "rows", "reward", "steps", "following", "done"), TRANSITIONS)
def test_transitions_by_hand(
    known: bool, options: dict[str, Any], rows: Any, reward: Any, steps: Any, following: Any, done: Any
) -> None:
    batch = everything(OfflineDataset(ROWS | ({"next_obs": NEXT_OBS} if known else {}), gamma=0.5, **options))
    assert batch["obs"].flatten().tolist() == [10 * row for row in rows]
    assert batch["action"].tolist() == ROWS["action"][rows].tolist()
    assert batch["reward"].tolist() == reward
    assert batch["value_gamma"].tolist() == [0.5**number for number in steps]
    assert batch["done"].tolist() == done
    pairs = zip(batch["next_obs"].flatten().tolist(), following, strict=True)
    assert all(found == expected for found, expected in pairs if expected is not UNKNOWN)


def test_a_row_of_padding_is_what_followed_a_terminal_step() -> None:
    """So a Minari data set has it, and `ignore_done` can bootstrap from it."""
    padding = np.array([0, 0, 0, 1, 0, 0, 0, 0, 1], np.bool_)
    place = np.array([0, 1, 2, 2, 3, 4, 5, 6, 6])
    padded = {key: column[place] for key, column in ROWS.items()} | {"traj_flag": padding, "padding": padding}
    padded["obs"][padding, 0], padded["done"][padding] = (25, 65), False
    for ignore_done in (False, True):
        dataset = OfflineDataset(padded, gamma=0.5, ignore_done=ignore_done)
        batch = everything(dataset)
        assert batch["next_obs"].flatten().tolist() == NEXT_OBS.flatten().tolist()
        assert (batch["reward"].tolist(), batch["done"].tolist(), dataset.left_out) == (PLAIN, ENDS, 0)
        dataset.fit(Box(0, 100, (1,)), ActionUnits(Discrete(2)), ignore_done=ignore_done)
    dataset = OfflineDataset(ROWS, ignore_done=True)
    assert dataset.left_out == 2
    with pytest.raises(DatasetError, match=r"ignore_done=True bootstraps .* 'columns' has no column next_obs: add it"):
        dataset.fit(Box(0, 100, (1,)), ActionUnits(Discrete(2)), ignore_done=True)


# Trajectories return 1 + 2 + 4 and 8 + 16 + 32 + 64, which differ by 113; the mean is 127 / 7.
NORMS = {
    "iql_locomotion": [1000 * reward / 113 for reward in PLAIN],
    "iql_antmaze": [reward - 1 for reward in PLAIN],
    "cql_antmaze": [4 * reward - 2 for reward in PLAIN],
    "antmaze": [2 * reward - 0.5 for reward in PLAIN],
    "normalize": [(reward - 127 / 7) / np.std(PLAIN) for reward in PLAIN],
}


@pytest.mark.parametrize(("norm", "expected"), NORMS.items())
def test_rewards_change_by_the_names_of_di_engine(norm: str, expected: list[float]) -> None:
    columns = ROWS | {"next_obs": NEXT_OBS}
    assert everything(OfflineDataset(columns, reward_norm=norm))["reward"].tolist() == pytest.approx(expected)
    del columns["traj_flag"]  # observations show where the second trajectory begins
    columns["done"] = np.array([0, 0, 1, 0, 0, 0, 1], np.bool_)
    assert everything(OfflineDataset(columns, reward_norm=norm))["reward"].tolist() == pytest.approx(expected)
    # as Minari's episodes are read: each ends with a row that is no step
    padding = np.array([0, 0, 0, 1, 0, 0, 0, 0, 1], np.bool_)
    place = np.array([0, 1, 2, 2, 3, 4, 5, 6, 6])
    padded = {key: column[place] for key, column in ROWS.items()} | {"traj_flag": padding, "padding": padding}
    padded["reward"][padding], padded["done"][padding] = 0.0, False
    assert everything(OfflineDataset(padded, reward_norm=norm))["reward"].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("norm", ["normalize", "iql_locomotion"])
def test_equal_rewards_cannot_be_normalised(norm: str) -> None:
    with pytest.raises(DatasetError, match=f"key 'reward': expected different values for .*'{norm}', got equal ones"):
        OfflineDataset(ROWS | {"reward": np.zeros(7)}, reward_norm=norm)


def test_without_flags_observations_say_where_a_trajectory_is_cut() -> None:
    columns = {key: ROWS[key][3:] for key in ("obs", "action", "reward", "done")}
    columns["next_obs"] = np.array([40, 45, 60, 70.0])[:, None]  # 45 is not what row 2 begins with
    batch = everything(OfflineDataset(columns, nstep=2, gamma=1.0))
    assert batch["reward"].tolist() == [8 + 16, 16, 32 + 64, 64]
    assert batch["next_obs"].flatten().tolist() == [45, 45, 70, 70]


def test_pieces_of_trajectories_by_hand() -> None:
    padding = np.array([0, 0, 0, 1, 0, 0, 0, 0, 1], np.bool_)  # as Minari's episodes are read
    place = np.array([0, 1, 2, 2, 3, 4, 5, 6, 6])
    padded = {key: column[place] for key, column in ROWS.items()} | {"traj_flag": padding, "padding": padding}
    padded["reward"][padding], padded["done"][padding] = 99.0, False
    unmarked = {key: ROWS[key] for key in ("obs", "action", "reward", "done")} | {"next_obs": NEXT_OBS}
    unmarked["done"] = ROWS["traj_flag"]
    for columns in (ROWS, padded, unmarked):
        dataset = SequenceDataset(columns, length=3)
        out = {key: torch.empty_like(leaf) for key, leaf in everything(dataset).items()}
        for batch in (everything(dataset), dataset.gather(torch.arange(7), out), out):
            assert batch["obs"].shape == (7, 3, 1)
            rows = batch["obs"][..., 0] / 10
            assert rows.tolist() == [[0, 1, 2], [1, 2, 2], [2, 2, 2], [3, 4, 5], [4, 5, 6], [5, 6, 6], [6, 6, 6]]
            assert torch.equal(batch["action"], rows.long() % 2)
            lengths = [3, 2, 1, 3, 3, 2, 1]
            assert batch["valid"].tolist() == [[True] * n + [False] * (3 - n) for n in lengths]
            # returns 1 + 2 + 4 and 8 + 16 + 32 + 64
            assert batch["rtg"][0].tolist() == [7, 6, 4]
            assert batch["rtg"][3:5].tolist() == [[120, 112, 96], [112, 96, 64]]
            assert batch["timestep"][:5].tolist() == [[0, 1, 2], [1, 2, 2], [2, 2, 2], [0, 1, 2], [1, 2, 3]]


def unfinished(column: bool, **changes: Any) -> dict[str, Any]:
    """Return three trajectories of the returns 1 + 2 + 4, 8 + 16 and 32 + 64, the last of which is cut."""
    traj_flag = np.array([0, 0, 1, 0, 1, 0, column], np.bool_)
    marked = {"unfinished": np.array([0, 0, 0, 0, 0, 1, 1], np.bool_)} if column else {}
    return ROWS | {"traj_flag": traj_flag} | marked | changes


@pytest.mark.parametrize("column", [False, True])
def test_a_trajectory_that_the_end_of_the_recording_has_cut_counts_no_return(column: bool) -> None:
    """What it would have returned is not known: the data end in it, or say that they cut it."""
    dataset = SequenceDataset(unfinished(column), length=2)
    batch = everything(dataset)
    assert (batch["obs"][:, 0, 0] / 10).tolist() == [0, 1, 2, 3, 4]
    assert batch["rtg"][:, 0].tolist() == [7, 6, 4, 24, 16]
    assert dataset.left_out == 2
    # IQL's range of returns is that of the others, 24 - 7; all steps are learned from
    rewards = everything(OfflineDataset(unfinished(column, next_obs=NEXT_OBS), reward_norm="iql_locomotion"))["reward"]
    assert rewards.tolist() == pytest.approx([1000 * reward / 17 for reward in PLAIN])
    nothing = unfinished(column, done=np.zeros(7), traj_flag=np.arange(7) == 6 if column else np.zeros(7))
    with pytest.raises(DatasetError, match="'columns' holds 7 rows, but no trajectory ends in them, so that no return"):
        SequenceDataset(nothing | ({"unfinished": np.ones(7)} if column else {}), length=2)


def test_types_of_a_batch() -> None:
    columns = {
        "obs": {"image": np.zeros((4, 2, 2), np.uint8), "speed": np.zeros((4, 3))},
        "action": np.zeros((4, 1), np.int32),
        "reward": np.zeros((4, 1)),
        "done": np.zeros((4, 1), np.float32),
        "next_obs": {"image": np.zeros((4, 2, 2), np.uint8), "speed": np.zeros((4, 3))},
    }
    batch = everything(OfflineDataset(columns))
    assert batch["obs"]["image"].dtype == torch.uint8
    assert batch["next_obs"]["speed"].dtype == torch.float32
    assert (batch["action"].dtype, batch["action"].shape) == (torch.int64, (4,))
    assert (batch["reward"].dtype, batch["reward"].shape) == (torch.float32, (4,))
    assert (batch["done"].dtype, batch["done"].shape) == (torch.bool, (4,))
    continuous = OfflineDataset({"obs": np.zeros((4, 3)), "action": np.zeros((4, 1))})
    assert continuous[2]["action"].shape == (1,)


# Layouts.

D4RL = {"obs": "observations", "action": "actions", "reward": "rewards", "done": "terminals", "traj_flag": "timeouts"}


def write_hdf5(path: Path, columns: dict[str, Any]) -> str:
    with h5py.File(path, "w") as file:
        for key, column in columns.items():
            file[key] = column
    return str(path)


def test_d4rl_hdf5(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "walker.hdf5", {D4RL[key]: column for key, column in ROWS.items()})
    with h5py.File(path, "a") as file:
        file["infos/qpos"], file["metadata/policy"] = np.zeros((7, 2)), "a text"
    batch, expected = everything(read_dataset(path, nstep=2)), everything(OfflineDataset(ROWS, nstep=2))
    assert batch.keys() == expected.keys()
    assert all(torch.equal(batch[key], expected[key]) for key in batch)


def test_di_engine_hdf5(tmp_path: Path) -> None:
    columns = {key: ROWS[key] for key in ("obs", "action", "reward", "done")} | {"next_obs": NEXT_OBS}
    columns["reward"] = columns["reward"][:, None]
    batch = everything(read_dataset(write_hdf5(tmp_path / "cartpole_demos.hdf5", columns)))
    assert batch["reward"].tolist() == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("name", ["data.hdf5", "data.npz", "data"])
def test_nested_observations_are_written_and_read(tmp_path: Path, name: str) -> None:
    obs: dict[str, Any] = {"image": np.arange(28, dtype=np.uint8).reshape(7, 2, 2), "inner": {"speed": ROWS["obs"]}}
    columns = {**ROWS, "obs": obs, "next_obs": {"image": obs["image"] + 1, "inner": {"speed": NEXT_OBS}}}
    path = str(tmp_path / "new" / name)
    write_columns(path, columns, {"env_id": "Walker-v0", "seed": 3})
    batch = everything(read_dataset(path))
    assert batch["obs"]["inner"]["speed"].flatten().tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert np.array_equal(batch["next_obs"]["image"], obs["image"] + 1)
    assert batch["obs"]["image"].dtype == torch.uint8


def test_files_of_a_directory_are_mapped_not_read(tmp_path: Path) -> None:
    write_columns(str(tmp_path / "data"), {**ROWS, "obs": ROWS["obs"].astype(np.float32)}, {})
    dataset = read_dataset(str(tmp_path / "data"))
    stored = np.load(tmp_path / "data" / "obs.npy", mmap_mode="r+")
    stored[0] = 77  # what the file says now, the data set says too
    stored.flush()
    assert dataset[0]["obs"].tolist() == [77]


def record_with_minari(cut: int = 0) -> tuple[Any, list[np.ndarray]]:
    """Record four CartPole episodes of random actions by Minari's buffers; return its data set.

    Also obs, action, reward, next_obs and terminated of all steps, `[R, ...]`. The last `cut` steps are not recorded.
    """
    minari = pytest.importorskip("minari")
    env: Any = gymnasium.make("CartPole-v1", max_episode_steps=12)
    episodes, generator = [], np.random.default_rng(0)
    for seed in range(4):
        obs, _ = env.reset(seed=seed)
        steps, ended = [], False
        while not ended:
            action = int(generator.integers(2))
            next_obs, reward, terminated, truncated, _ = env.step(action)
            steps.append((obs, action, reward, next_obs, terminated, truncated))
            obs, ended = next_obs, terminated or truncated
        steps = steps[: len(steps) - cut * (seed == 3)]
        episodes.append([np.stack(column) for column in zip(*steps, strict=True)])
    make = minari.data_collector.EpisodeBuffer
    buffers = [make(None, None, None, np.append(e[0], e[3][-1:], 0), e[1], e[2], e[4], e[5], {}) for e in episodes]
    data = minari.create_dataset_from_buffers("test/cartpole-v0", buffers, env=env)
    return data, [np.concatenate(column) for column in zip(*episodes, strict=True)]


@pytest.mark.filterwarnings("ignore::UserWarning:minari")  # it misses an author and more
def test_a_minari_data_set_reads_as_it_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data, (obs, action, reward, next_obs, done, _) = record_with_minari()
    for path in ("test/cartpole-v0", str(tmp_path / "test" / "cartpole-v0")):
        batch = everything(read_dataset(path))
        for key, column in (("obs", obs), ("action", action), ("reward", reward), ("done", done)):
            assert np.array_equal(batch[key], column), key
        assert np.array_equal(batch["next_obs"][~done], next_obs[~done])
    assert 0 < done.sum() < 4  # some fell, others met the time limit
    assert len(read_dataset("test/cartpole-v0", required=("obs", "action"))) == data.total_steps


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_the_last_episode_of_a_minari_data_set_may_be_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data, _ = record_with_minari(cut=2)
    last = len(list(data.iterate_episodes())[-1].rewards)
    dataset = read_dataset("test/cartpole-v0", length=2)
    assert (len(dataset), dataset.left_out) == (data.total_steps - last, last)
    assert len(read_dataset("test/cartpole-v0")) == data.total_steps


# What does not fit. Each message names the file, the key, what is expected and what there is.


def message_of(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        read_dataset(*args, **kwargs)
    return str(caught.value)


def test_a_missing_column_is_named_beside_those_there_are(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "data.hdf5", {"observations": ROWS["obs"], "acts": ROWS["action"]})
    assert message_of(path) == f"Data set '{path}' lacks 'action' (or 'actions'). It has acts, observations."


def test_a_file_that_does_not_say_where_trajectories_end(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "data.hdf5", {key: ROWS[key] for key in ("obs", "action", "reward", "done")})
    assert "neither 'next_obs' nor 'traj_flag' nor 'timeouts'" in message_of(path)


@pytest.mark.parametrize(
    ("key", "column", "said"),
    [
        ("reward", np.ones(6), "key 'reward': expected 7 rows, as 'obs' has, got 6"),
        ("reward", np.ones((7, 2)), "key 'reward': expected shape [7], got [7, 2]"),
        ("reward", np.where(np.arange(7) == 4, np.nan, 1), "key 'reward': expected finite numbers, got nan"),
        ("action", np.where(np.arange(7) == 4, np.inf, 1), "first in row 4"),
        ("action", np.array(list("abcdefg"), "S1"), "key 'action': expected numbers, got type |S1"),
        ("next_obs", np.ones((7, 3)), "key 'next_obs': expected what 'obs' has, [1], got [3]"),
        (
            "done",
            np.where(np.arange(7) == 4, np.nan, 0),
            "key 'done': expected True or False, or 1 or 0, got nan in row 4",
        ),
        ("done", np.full((7, 1), 0.5), "key 'done': expected True or False, or 1 or 0, got [0.5] in row 0"),
        ("traj_flag", np.arange(7) - 1, "key 'traj_flag': expected True or False, or 1 or 0, got -1 in row 0"),
        ("done", np.arange(7, dtype=np.uint8), "key 'done': expected True or False, or 1 or 0, got 2 in row 2"),
        ("done", np.full(7, 1e-50), "key 'done': expected True or False, or 1 or 0, got 1e-50 in row 0"),
        ("obs", np.float64(3), "key 'obs': expected one entry for each step, got a single number"),
    ],
)
def test_columns_that_do_not_fit(tmp_path: Path, key: str, column: Any, said: str) -> None:
    path = write_hdf5(tmp_path / "data.hdf5", {**ROWS, key: column})
    assert f"'{path}'" in message_of(path)
    assert said in message_of(path)


def test_empty_files(tmp_path: Path) -> None:
    assert "It has no columns at all." in message_of(write_hdf5(tmp_path / "a.hdf5", {}))
    empty = write_hdf5(tmp_path / "b.hdf5", {key: column[:0] for key, column in ROWS.items()})
    assert "is empty: its columns have no rows" in message_of(empty)
    last = write_hdf5(tmp_path / "c.hdf5", {key: column[-1:] for key, column in ROWS.items()})
    assert "1 rows, but no transition starts" in message_of(last)
    (tmp_path / "d").mkdir()
    assert "lacks 'obs'" in message_of(str(tmp_path / "d"))


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "data.hdf5"
    write_hdf5(path, {**ROWS, "obs": np.zeros((7, 1000))})
    path.write_bytes(path.read_bytes()[:-5000])
    assert "cannot be read as hdf5: it is damaged, truncated or of another kind" in message_of(str(path))
    path.write_text("a text\n" * 1000)
    assert "cannot be read as hdf5" in message_of(str(path))
    archive = tmp_path / "data.npz"
    np.savez(archive, **ROWS)
    archive.write_bytes(archive.read_bytes()[:-100])
    assert "cannot be read as npz" in message_of(str(archive))
    np.savez(archive, **{**ROWS, "obs": np.array([{}] * 7)})
    assert "cannot be read as npz" in message_of(str(archive))
    np.save(archive.with_suffix(".npy"), np.zeros(3))
    assert "holds a single array" in message_of(str(archive.with_suffix(".npy")), "npz")


def test_paths_and_types(tmp_path: Path) -> None:
    missing = str(tmp_path / "data.hdf5")
    assert f"'{missing}' does not exist on machine" in message_of(missing)
    assert message_of("pendulum/expert-v0", "hdf5").endswith("of this id, set it to 'minari'.")
    assert "is a pickle file, which could run any code" in message_of(str(tmp_path / "data.pkl"))
    assert "is a pickle file" in message_of(str(tmp_path / "data"), "naive")
    assert "Did you mean 'hdf5'?" in message_of(missing, "hdf")
    assert "expected a file that ends with .hdf5, .h5, .npz" in message_of(str(tmp_path / "data.csv"))
    assert "policy.collect.data_path is empty" in message_of("")


@pytest.mark.parametrize(("module", "path"), [("h5py", "data.hdf5"), ("minari", "test/none-v0")])
def test_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, path: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "data.hdf5").touch()
    with pytest.raises(UserError, match=r"This data set needs the extra 'offline' .*'ding_lite\[offline\]'"):
        read_dataset(path)


@pytest.mark.parametrize(
    ("key", "column", "space", "said"),
    [
        ("obs", np.zeros((3, 4)), Box(-1, 1, (5,)), "key 'obs': expected [5] in each row"),
        ("obs", {"a": np.zeros((3, 4))}, Box(-1, 1, (4,)), "key 'obs': expected a single one"),
        ("obs", {"b": np.zeros((3, 4))}, Dict(a=Box(-1, 1, (4,))), "key 'obs/a': expected a column"),
        (
            "obs",
            {"x": np.zeros((3, 2)), "action_mask": np.array([[1], [0], [1]])},
            Dict(x=Box(-1, 1, (2,)), action_mask=MultiBinary(1)),
            "key 'action': expected actions that the 'action_mask' allows, got 0 with the mask [0] in row 1",
        ),
        ("action", np.array([0, 1, 2]), Discrete(2), "key 'action': expected actions of Discrete(2), got 0 to 2"),
        ("action", np.array([0.0, 1, 0]), Discrete(2), "expected whole numbers for Discrete(2), got torch.float32"),
        ("action", np.full((3, 1), 2.0), Box(-1, 1, (1,)), "got 2.0 to 2.0"),
        ("action", np.ones((3, 1)), Box(-2, 2, (1,)), "policy.collect.action_units to 'env' or 'policy'"),
    ],
)
def test_columns_are_compared_with_the_environments_spaces(key: str, column: Any, space: Any, said: str) -> None:
    columns = {"obs": np.zeros((3, 2)), "action": np.zeros(3, np.int64), key: column}
    spaces = {"obs": Box(-1, 1, (2,)), "action": Discrete(1), key: space}
    with pytest.raises(DatasetError) as caught:
        OfflineDataset(columns).fit(spaces["obs"], ActionUnits(spaces["action"]))
    assert said in str(caught.value)


IMAGES = Box(0, 255, (10, 12, 3), np.uint8)
FORMS: dict[str, Any] = {
    "label": Discrete(4, start=1),
    "labels": MultiDiscrete([2, 3], start=[1, 0]),
    "bits": MultiBinary((2, 3)),
    "integers": Box(0, 300, (3,), np.int64),
    "number": Box(-1, 1, (), np.float32),
    "image": IMAGES,
    "dict": Dict(place=Discrete(4, start=1), eye=IMAGES, action_mask=MultiBinary(5)),
}


@pytest.mark.parametrize("name", FORMS)
def test_observations_of_the_environment_are_converted_as_the_environment_does(name: str) -> None:
    space, actions = FORMS[name], MultiDiscrete([3, 2]) if name == "dict" else Discrete(3, start=2)
    space.seed(0)
    side, convert, _ = observation_side(space, "", actions)
    rows: Any = [space.sample() for _ in range(4)]
    columns: dict[str, Any] = {"action": np.full((4, 2), 0) if name == "dict" else np.full(4, 2)}
    if name == "dict":
        for row in rows:
            row["action_mask"][:] = 1
    seen = tree_map(lambda *leaves: np.stack(leaves), *rows)
    units = ActionUnits(actions)
    for obs in (seen, convert(seen)):  # as the environment returns them, and as the policy sees them
        dataset = OfflineDataset({"obs": obs, **columns}, action_units="env")
        dataset.fit(side, units, space)
        batch = dataset.gather(torch.tensor([2, 0]))["obs"]
        expected = tree_map(lambda leaf: leaf[[2, 0]], convert(seen))
        tree_map(lambda found, wanted: np.testing.assert_array_equal(found.numpy(), wanted), batch, expected)
        kinds = tree_map(lambda leaf: str(leaf.dtype), expected)
        assert tree_map(lambda leaf: str(leaf.dtype).removeprefix("torch."), batch) == kinds
        slots = tree_map(torch.zeros_like, {"obs": batch, "action": dataset.gather(torch.tensor([2, 0]))["action"]})
        dataset.gather(torch.tensor([2, 0]), out=slots)
        tree_map(lambda found, wanted: np.testing.assert_array_equal(found.numpy(), wanted), slots["obs"], expected)


@pytest.mark.parametrize(
    ("space", "obs", "said"),
    [
        (Discrete(4, start=1), np.array([1, 0, 4]), "with the value 0 (int64), not in its space Discrete(4, start=1)"),
        (IMAGES, np.full((3, 10, 12, 3), 300), "with the value 300 (int64), not in its space Box(0, 255, (10, 12, 3)"),
        (
            IMAGES,
            np.full((3, 3, 10, 12), 0.5),
            "with the value 0.5 (float32), not in its space Box(0, 255, (3, 10, 12)",
        ),
        (
            FORMS["integers"],
            np.full((3, 3), 301),
            "with the value 301 (int64), not in its space Box(0, 300, (3,), int64",
        ),
        (MultiBinary(2), np.full((3, 2), 2), "with the value 2 (int64), not in its space MultiBinary(2)"),
    ],
)
def test_an_observation_that_is_not_in_its_space_is_refused(space: Any, obs: Any, said: str) -> None:
    with pytest.raises(DatasetError, match=re.escape(f"Data set 'columns', key 'obs' {said}")):
        OfflineDataset({"obs": obs}).fit(observation_side(space)[0], ActionUnits(Discrete(2)), space)


@pytest.mark.parametrize(
    ("space", "env", "policy"),
    [
        (Discrete(3, start=1), [1, 3], [0, 2]),
        (MultiDiscrete(np.array([[2, 3]]), start=np.array([[0, 5]])), [[[0, 5]], [[1, 7]]], [[0, 0], [1, 2]]),
        (MultiBinary((1, 2)), np.array([[[0, 1]], [[1, 1]]], bool), [[0, 1], [1, 1]]),
        (Box(0, 10, (1,), np.int64), [[0], [5]], [[-1.0], [0]]),
        (Box(-0.4, 0.4, (1,)), [[0.4], [-0.1]], [[1.0], [-0.25]]),
        (Box(np.array([3, -2], np.float32), np.array([3, 2], np.float32)), [[3.0, 1]], [[0.0, 0.5]]),
    ],
)
def test_actions_become_the_policys(tmp_path: Path, space: Any, env: Any, policy: Any) -> None:
    units, obs_space = ActionUnits(space), Box(-1, 1, (1,))
    for action_units, action in (("env", np.array(env)), ("policy", np.array(policy))):
        columns = {"obs": np.zeros((len(action), 1), np.float32), "action": action}
        for path in (str(tmp_path / f"{action_units}.npz"), str(tmp_path / f"{action_units}.h5")):
            write_columns(path, columns, {"action_units": action_units})
            dataset = read_dataset(path, required=("obs", "action"))
            dataset.fit(obs_space, units)
            found = dataset.gather(torch.arange(len(action)))["action"]
            np.testing.assert_allclose(found, policy, rtol=1e-6)
            assert found.dtype == (torch.float32 if isinstance(space, Box) else torch.int64)
