"""What a DataLoader over a policy's collector gives: whose experience, by which parameters, and nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import multiprocessing, nn
from torch.utils.data import DataLoader

from ding_lite.config import read_config
from ding_lite.dataset.rollout_dataset import SharedModule
from ding_lite.entry import RolloutDataset
from ding_lite.envs import episode_monitor
from ding_lite.utils import ConfigError
from ding_lite.utils.tree import tree_leaves
from tests.distributed.launcher import ROOT, find_marked, finish, say, start
from tests.policy.helpers import parameter_hash
from tests.survival.common import abandoned_memory, memory_left_since, wait_until

CONFIGS = ROOT / "dizoo" / "classic_control" / "cartpole" / "config"
SIZES = ["env.collector_env_num=2", "policy.collect.n_sample=16", "policy.learn.batch_size=8"]
SMALL = {  # by policy: how a test changes its config
    "a2c": SIZES,
    "ppo": [
        *(*SIZES, "policy.learn.value_norm=False", "policy.learn.epoch_per_collect=2"),
        *("policy.learn.lr_scheduler=None", "policy.learn.clip_scheduler=None"),
    ],
    "pg": ["env.collector_env_num=2", "policy.collect.n_episode=2", "policy.learn.batch_size=8"],
    "dqn": SIZES,
    "impala": ["env.collector_env_num=2"],
}

RATE = "{'type': 'linear', 'start': 0.9, 'end': 0.1, 'over': 64, 'by': '%s'}"


def make(name: str, unit: str = "batch", *overrides: str, seed: int = 0, **options: Any) -> RolloutDataset:
    return RolloutDataset(
        read_config(CONFIGS / f"cartpole_{name}_config.py"), seed, unit, overrides=[*SMALL[name], *overrides], **options
    )


def take(dataset: RolloutDataset, number: int, **options: Any) -> list[dict[str, Any]]:
    return list(itertools.islice(DataLoader(dataset, **({"batch_size": None} | options)), number))


def hashes(items: list[dict[str, Any]]) -> list[str]:
    return [parameter_hash({str(i): leaf for i, leaf in enumerate(tree_leaves(item))}) for item in items]


def prefer(dataset: RolloutDataset, action: int) -> None:
    """Publish parameters that choose this action whatever is seen."""
    with torch.no_grad():
        for parameter in dataset.policy.model.parameters():
            parameter.zero_()
        biases = [p for name, p in dataset.policy.model.named_parameters() if p.shape == (2,) and "critic" not in name]
        biases[-1][action] = 100.0
    dataset.publish()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- items ------------------------------------------------------------------------------------------------------------

LEARNED = {
    "a2c": {"obs", "action", "adv", "return_", "version"},
    "ppo": {"obs", "action", "logit", "value", "adv", "return_", "version"},
    "pg": {"obs", "action", "return_", "version"},
    "dqn": {"obs", "action", "reward", "next_obs", "done", "traj_flag", "value_gamma", "version"},
}


@pytest.mark.parametrize("name", LEARNED)
def test_batches_hold_the_same_samples_and_have_the_configs_size(name: str) -> None:
    batches, singles = take(make(name, "batch"), 6), list(itertools.islice(make(name, "transition"), 32))
    if name != "pg":  # whose collects differ in length
        assert {len(batch["obs"]) for batch in batches} == {8}
    assert set(batches[0]) == LEARNED[name]
    (stacked,) = take(make(name, "transition"), 1, batch_size=32)
    for key in LEARNED[name]:
        assert torch.equal(stacked[key], torch.stack([single[key] for single in singles]))
        joined = torch.cat([batch[key] for batch in batches])
        assert torch.equal(joined[:32], stacked[key])


@pytest.mark.parametrize("name", ["a2c", "pg"])
def test_the_policys_loss_takes_the_batches_and_reaches_every_parameter(name: str) -> None:
    dataset = make(name)
    loss, _ = dataset.policy.loss(take(dataset, 1)[0])
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in dataset.policy.model.parameters())


@pytest.mark.parametrize("name", ["ppo", "pg", "dqn", "impala"])
def test_episodes_are_whole(name: str) -> None:
    for episode in take(make(name, "episode"), 5):
        length = len(episode["reward"])
        assert episode["obs"].shape == (length, 4)
        assert episode["last_obs"].shape == (4,)
        assert episode["traj_flag"].tolist() == [False] * (length - 1) + [True]
        assert episode["obs"][0].abs().max() < 0.05  # where CartPole starts
        assert episode["done"][-1]  # it falls, long before the limit of steps
        assert episode["last_obs"][[0, 2]].abs().gt(torch.tensor([2.4, 0.2])).any()


@pytest.mark.parametrize("kind", ["pg", "dqn"])
def test_an_episode_without_a_time_limit_is_cut_instead_of_waited_for(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_monitor, "LONGEST_EPISODE", 50)
    env = dict(env_id="MountainCar-v0", max_episode_steps=0)  # 50 steps do not bring the car to the flag
    (episode,) = take(RolloutDataset((dict(env=env), dict(policy=dict(type=kind))), 0, "episode"), 1)
    assert (len(episode["reward"]), episode["traj_flag"].sum().item(), episode["done"].any().item()) == (50, 1, False)


@pytest.mark.parametrize(
    ("name", "unit", "overrides", "message"),
    [
        ("a2c", "transitions", [], "expected unit to be one of .* got 'transitions'. Did you mean 'transition'?"),
        ("impala", "transition", [], "'impala' learns from sequences of steps: use unit='episode'"),
        (
            "a2c",
            "batch",
            [f"policy.learn.learning_rate={RATE % 'env_step'}"],
            "follows schedules of policy.collect by 'e",
        ),
        ("ppo", "batch", ["policy.learn.value_norm=True"], "sees only its own: set it to False"),
        (
            *("ppo", "batch", ["policy.learn.kl_early_stop=True", "policy.learn.target_kl=0.1"]),
            r"policy\.learn\.kl_early_stop=True has an effect only in ding_lite's training loop",
        ),
        (
            *("ppo", "batch", ["policy.learn.kl_learning_rate=True", "policy.learn.target_kl=0.1"]),
            r"policy\.learn\.kl_learning_rate=True has an effect only in ding_lite's training loop",
        ),
    ],
)
def test_what_there_is_no_stream_of_is_an_error(name: str, unit: str, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(name, unit, *overrides)


# -- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a2c", "dqn"])
def test_a_run_repeats_with_no_worker_and_with_one_whatever_else_is_drawn(name: str) -> None:
    torch.manual_seed(1)
    first = hashes(take(make(name), 6))
    torch.manual_seed(2)
    assert hashes(take(make(name), 6)) == first
    assert hashes(take(make(name), 6, num_workers=1)) == first
    assert not set(hashes(take(make(name, seed=1), 6))) & set(first)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_no_worker_and_no_iteration_plays_what_another_has_played(method: str) -> None:
    dataset, told = make("a2c"), []
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=method, persistent_workers=method == "spawn"
    )
    for _ in range(2):
        told += hashes(list(itertools.islice(loader, 6)))
    assert len(set(told)) == 12


# -- parameters and counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [None, "fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_what_is_published_is_played_and_the_version_tells_it(method: str | None) -> None:
    dataset, workers = make("a2c", "batch", "policy.learn.batch_size=16"), 2 if method else 0
    loader = iter(DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method))
    first = next(loader)
    assert 0 < first["action"].float().mean() < 1
    assert first["version"].unique().tolist() == [0]
    prefer(dataset, 1)
    assert dataset.version == 1
    ahead = 2 * workers  # batches of each that a loader keeps ready, 16 samples each: one collect
    late = [next(loader) for _ in range(ahead + workers + 1)][ahead + workers :]
    assert [batch["version"].unique().tolist() for batch in late] == [[1]]
    assert all((batch["action"] == 1).all() for batch in late)


def test_counts_are_those_of_all_workers_and_schedules_follow_them() -> None:
    fall = ["policy.other.eps.type=linear", "policy.other.eps.start=1.0", "policy.other.eps.end=0.0"]
    dataset = make("dqn", "batch", *fall, "policy.other.eps.decay=400", "policy.nstep=1")
    prefer(dataset, 0)
    loader = iter(DataLoader(dataset, batch_size=None, num_workers=2))
    early = torch.cat([next(loader)["action"] for _ in range(8)])
    assert early.any()
    while dataset.envstep < 400:
        next(loader)
    late = [next(loader)["action"] for _ in range(20)][12:]  # after what was ready, and a collect that had begun
    assert not torch.cat(late).any()
    before, figures, after = dataset.envstep, dataset.figures(), dataset.envstep  # the workers play on
    assert 400 <= before <= figures["env_step"] <= after
    assert figures["env_step"] % 16 == 0
    assert figures["episode"] > 0
    assert figures["return"] == figures["length"] <= figures["env_step"]  # CartPole pays 1 a step


# -- nothing is left --------------------------------------------------------------------------------------------------


@pytest.fixture
def shared_memory() -> Iterator[None]:
    before = abandoned_memory()
    yield
    assert not memory_left_since(before, 60)


@pytest.mark.usefixtures("shared_memory")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_environments_and_workers_end_with_the_iteration(num_workers: int) -> None:
    before = children(os.getpid())
    dataset = make("a2c", "batch", "env.manager.type=subprocess")
    loader = iter(DataLoader(dataset, batch_size=None, num_workers=num_workers))
    next(loader)
    begun = [pid for pid in children(os.getpid()) if pid not in before]
    nurseries = children(begun[0]) if num_workers else begun
    assert nurseries
    del loader
    assert children(os.getpid()) == before
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in nurseries), None, 10)


@pytest.mark.usefixtures("shared_memory")
def test_nothing_outlives_a_process_that_is_killed() -> None:
    process = start([sys.executable, "-m", "tests.dataset.test_rollout_dataset"])
    try:
        assert process.stdout
        assert process.stdout.readline() == "playing\n"
        mark = process.mark  # type: ignore[attr-defined]
        assert len(find_marked(mark)) >= 1 + 2 + 2  # itself, two workers, the nursery of each
        os.kill(process.pid, signal.SIGKILL)
        # torch's workers look every five seconds whether their parent lives
        wait_until(lambda: not find_marked(mark), None, 40)
    finally:
        finish(process, timeout=10)


def main() -> None:
    """Play until killed."""
    dataset = make("a2c", "batch", "env.manager.type=subprocess")
    for number, _ in enumerate(DataLoader(dataset, batch_size=None, num_workers=2)):
        if number == 4:
            say("playing")


if __name__ == "__main__":
    main()


TIMEOUT = 60


def make_module(value: float) -> Any:
    """Return some MB of equal numbers: an image layer in channels_last, a matrix, a buffer."""
    module = nn.Sequential(nn.Conv2d(8, 64, 3), nn.Linear(1000, 500), nn.BatchNorm1d(500))
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(value)
    return module


def values_of(module: nn.Module) -> set[float]:
    tensors = (*module.parameters(), *module.buffers())
    return {float(value) for tensor in tensors for value in tensor.detach().aminmax()}


def read_until(shared: SharedModule, last: int, found: SimpleQueue[Any]) -> None:
    """Read every version that can be had; tell them, and the numbers that were in each."""
    torch.set_num_threads(1)
    module, version, seen = make_module(-1.0), -1, []
    while version < last:
        version = shared.read(module, version)
        seen.append((version, sorted(values_of(module))))
    found.put(seen)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_reader_never_sees_a_mix_of_versions(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    shared, last = SharedModule(make_module(0.0)), 40
    found = context.SimpleQueue()
    readers = [context.Process(target=read_until, args=(shared, last, found), daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    modules = [make_module(0.0) for _ in range(2)]
    for version in range(1, last + 1):
        module = modules[version % 2]
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.fill_(version)
        assert shared.write(module) == version
    for _ in readers:
        seen = found.get()
        assert all(values == [version] for version, values in seen)
        assert seen[-1][0] == last
    for reader in readers:
        reader.join(TIMEOUT)
