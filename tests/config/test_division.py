from __future__ import annotations

from typing import Any

import pytest
from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.config.shapes import ENVS, PARTS, divide
from ding_lite.utils import ConfigError
from ding_lite.utils.key import get_key
from ding_lite.utils.ranks.launch_environment import share
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.algorithms import policy_keys, row
from tests.distributed.test_parity import PROBLEMS

SHARED = ("policy.learn.batch_size", "env.collector_env_num", *PARTS)
KINDS = sorted({kind for kind, _, _ in PROBLEMS.values()})


def compiled(kind: str, *overrides: str) -> EasyDict:
    main: dict[str, Any] = dict(env=dict(env_id="CartPole-v1", collector_env_num=8))
    words = ["policy.divide=True", *policy_keys(row(kind).short), *overrides]
    return compile_config((main, dict(policy=dict(type=kind))), overrides=words)


@pytest.mark.parametrize("ranks", range(1, 10))
def test_items_are_dealt_in_order_and_ranks_differ_by_one(ranks: int) -> None:
    shares = [share(7, rank, ranks) for rank in range(ranks)]
    assert [item for each in shares for item in each] == list(range(7))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_together_have_the_sizes_of_the_config(kind: str) -> None:
    """Whatever their number: they differ in environments, and have of everything else what belongs to these."""
    source = POLICY_REGISTRY.find(kind).learns_from
    dataset = source == "dataset"
    for ranks in (1, 2, 4) if dataset else (1, 2, 3, 8):
        cfg = compiled(kind, "policy.learn.batch_size=64" if dataset else "policy.learn.batch_size=65")
        owns = [divide(cfg, source, rank, ranks) for rank in range(ranks)]
        for path in SHARED[:1] if dataset else SHARED:
            if (whole := get_key(cfg, path)) is not None:
                assert sum(get_key(own, path) for own in owns) == pytest.approx(whole), path
        for path in () if dataset else PARTS:
            if get_key(cfg, path) is not None:
                assert len({get_key(own, path) / own.env.collector_env_num for own in owns}) == 1, path


@pytest.mark.parametrize(("kind", "shared"), [("dqn", SHARED), ("impala", SHARED), ("ppo", SHARED[:1])])
def test_actors_keep_their_environments_whatever_the_number_of_ranks(kind: str, shared: tuple[str, ...]) -> None:
    cfg = compiled(kind, "policy.collect.actors=4", "policy.collect.n_sample=64")
    source = POLICY_REGISTRY.find(kind).learns_from
    for ranks in (1, 2, 4):
        owns = [divide(cfg, source, rank, ranks) for rank in range(ranks)]
        for path in (ENVS, *SHARED):
            if (whole := get_key(cfg, path)) is not None:
                divided = path in shared and path != ENVS
                assert [get_key(own, path) for own in owns] == [whole / ranks if divided else whole] * ranks, path


@pytest.mark.parametrize(
    ("kind", "ranks", "overrides", "message"),
    [
        ("dqn", 9, [], r"env\.collector_env_num=8 is shared by 9 ranks .*: set at least 9, or start at most 8 ranks"),
        ("dqn", 4, ["policy.learn.batch_size=3"], r"batch_size=3 .* at least 4, or start at most 3 ranks"),
        ("bc", 3, [], r"batch_size=64 is shared by 3 ranks .*: expected a multiple of 3, such as 63 or 66"),
        (
            "dqn",
            2,
            ["policy.collect.actors=1"],
            r"actors=1 is shared by 2 ranks .*: set at least 2, or start at most 1",
        ),
        ("dqn", 2, ["policy.collect.actors=2"], r"n_sample=8 is .* by 2 ranks .* a multiple of 16, such as 16\."),
        ("impala", 3, ["policy.collect.n_sample=4"], r"n_sample=4 is .* by 3 ranks .* a multiple of 8, such as 8\."),
    ],
)
def test_sizes_that_ranks_cannot_share_are_refused_on_all_alike(
    kind: str, ranks: int, overrides: list[str], message: str
) -> None:
    source = POLICY_REGISTRY.find(kind).learns_from
    for rank in range(ranks):
        with pytest.raises(ConfigError, match=message):
            divide(compiled(kind, *overrides), source, rank, ranks)


def test_the_replay_buffer_is_rounded_to_equal_parts() -> None:
    size = "policy.other.replay_buffer.replay_buffer_size"
    cfg = compiled("dqn", f"{size}=1001")
    assert get_key(cfg, size) == 1000
    assert f"{size}=1001 is 1000 here: 8 equal parts." in cfg.notes
