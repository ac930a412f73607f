"""Policies that go on by playing after they have learned from a data set: IQL, CQL and TD3+BC with replay.

Their losses, networks and checkpoints are those of `iql`, `cql` and `td3_bc`. What they play joins the data in the
buffer `demonstrations`, see `offline/demonstrations.py`:

    policy.other.replay_buffer = dict(type="demonstrations", data_path="pen.hdf5", first_updates=100000)
"""

from __future__ import annotations

from typing import Any

from ding_lite.offline.policy.cql import CQLPolicy
from ding_lite.offline.policy.iql import IQLPolicy
from ding_lite.offline.policy.td3_bc import TD3BCPolicy
from ding_lite.policy.common_keys import DATASET_KEYS, REPLAY_KEYS
from ding_lite.utils.registry import POLICY_REGISTRY

BUFFER: dict[str, Any] = dict(replay_buffer_size=1000000)
PLAYED_KEYS = {key: part for key, part in REPLAY_KEYS.items() if not key.startswith("priority")}


def with_replay(groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the key groups of a policy that learns from a data set, with replay in its place."""
    return tuple(PLAYED_KEYS if group is DATASET_KEYS else group for group in groups)


@POLICY_REGISTRY.register("iql_online")
class OnlineIQLPolicy(IQLPolicy):
    """IQL that plays, see the module."""

    key_groups = with_replay(IQLPolicy.key_groups)
    config = dict(type="iql_online", other=dict(replay_buffer=BUFFER))
    learns_from = "replay"


@POLICY_REGISTRY.register("cql_online")
class OnlineCQLPolicy(CQLPolicy):
    """CQL that plays, see the module."""

    key_groups = with_replay(CQLPolicy.key_groups)
    config = dict(type="cql_online", other=dict(replay_buffer=BUFFER))
    learns_from = "replay"


@POLICY_REGISTRY.register("td3_bc_online")
class OnlineTD3BCPolicy(TD3BCPolicy):
    """TD3+BC that plays, see the module. A schedule of `learn.alpha` lets it imitate less in time."""

    key_groups = with_replay(TD3BCPolicy.key_groups)
    config = dict(type="td3_bc_online", other=dict(replay_buffer=BUFFER))
    learns_from = "replay"
