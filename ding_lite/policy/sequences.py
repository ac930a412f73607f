"""Learning from sequences: what policies with a memory have in common, and what PPO does differently with one.

A sequence is all that one environment played in a collect. It starts from the state that was stored with its first row.

Shapes: T steps of a collect or a sequence, U steps to learn from, N environments, B sequences of a batch, or
environments of a minibatch, K ended episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.model.recurrent import unroll
from ding_lite.policy.base import Policy
from ding_lite.torch_utils.data import Batch, Block
from ding_lite.torch_utils.minibatch import minibatches
from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map

# Keys of actor-critics that learn from replayed sequences.
UNROLL_KEYS: dict[str, Any] = dict(
    unroll_len=Key(32, "env steps of a sequence; n_sample, batch_size and buffer size count sequences", low=1),
    random_collect_size=Key(0, "sequences per rank that the policy plays before learning starts", low=0),
    learn=dict(
        update_per_collect=Key(4, "learner iterations after each collect", low=1),
        batch_size=Key(16, "sequences per rank and iteration", low=1),
    ),
    other=dict(
        replay_buffer=dict(
            type=Key("sequence", "a buffer that returns sequences"),
            replay_buffer_size=Key(1000, "capacity of the buffer, in sequences per rank", low=1),
        ),
    ),
)
# Keys of policies with a memory that learn from replayed sequences.
SEQUENCE_KEYS: dict[str, Any] = dict(
    unroll_len=Key(16, "env steps of a sequence that are learned from; n_sample and sizes count sequences", low=1),
    burnin_step=Key(4, "env steps before these that only bring the recurrent states up to date", low=0),
    random_collect_size=Key(64, "sequences per rank with random actions before learning starts", low=0),
    learn=dict(
        batch_size=32,
        priority_eta=Key(
            0.9, "eta: share of the largest error in a sequence's priority; the rest is the mean", low=0, high=1
        ),
    ),
    collect=dict(
        n_sample=Key(None, "sequences per rank and collect; None: one per environment", type=int, low=1),
    ),
    other=dict(
        replay_buffer=dict(
            replay_buffer_size=Key(6000, "capacity: sequences of unroll_len env steps per rank", low=1),
        ),
    ),
)


class RecurrentPolicy(Policy):
    """What policies that learn from replayed sequences have in common."""

    stored_outputs: ClassVar[tuple[str, ...]] = ("prev_state",)
    remembers = True

    def _unroll(self, network: nn.Module, batch: Batch, key: str = "logit") -> tuple[Tensor, Tensor]:
        """Return an output for the rows after burn-in, and for their successors, both `[T - burnin_step, B, ...]`."""
        run, burnin = partial(self._run, network), self._cfg.burnin_step
        obs, start, state = batch["obs"], batch["episode_start"], self._to_device(batch["prev_state"])
        if burnin:
            with torch.no_grad():
                first = tree_map(lambda leaf: leaf[:burnin], obs)
                state = run(first, prev_state=state, episode_start=start[:burnin])["next_state"]
        output, following = unroll(run, key, after_burnin(batch, burnin) | {"prev_state": state})
        return output[key], following

    def _priority(self, error_UB: Tensor) -> Tensor:
        """Return the priorities `[B]` of sequences with these absolute errors (Kapturowski et al. 2019, eq. 1)."""
        return torch.lerp(error_UB.mean(0), error_UB.amax(0), self._cfg.learn.priority_eta)


def find_core(model: Mapping[str, Any]) -> str | None:
    """Return the key of `policy.model` that gives an actor-critic a recurrent core; None if none does."""
    return next((key for key in ("lstm_type", "memory") if model.get(key)), None)


def check_core(policy: EasyDict, recurrent: bool) -> None:
    """Check that a model has a recurrent core only if the policy can learn with one."""
    key = find_core(policy.model)
    if key and not recurrent:
        raise ConfigError(
            f"policy.model.{key}={policy.model[key]} is not possible with policy '{policy.type}': "
            "of the policies with this model, only 'ppo' has a memory. Leave it out."
        )


def learned_rows(batch: Batch, cfg: EasyDict) -> dict[str, Tensor]:
    """Return what a loss reads of the rows after burn-in, `[U, B, ...]`: `action`, and what a target needs.

    That is what `bootstrapped` takes, and `last_step`, the row in which the n steps end, counted from the first row
    after burn-in: row t + n - 1, or an earlier one at which the trajectory is cut. Its successor's value is the next.
    """
    learned = slice(cfg.burnin_step, cfg.burnin_step + cfg.unroll_len)
    rows = {key: batch[key][learned] for key in ("action", "reward", "done", "value_gamma")}
    return rows | {"last_step": batch["last_step"][learned] - cfg.burnin_step}


def after_burnin(batch: Batch, burnin: int) -> dict[str, Any]:
    """Return the observations of sequences, and what says where episodes start and end, without the burn-in steps."""
    start = batch["episode_start"]
    rest = {"obs": tree_map(lambda leaf: leaf[burnin:], batch["obs"]), "last_obs": batch["last_obs"]}
    rest["episode_start"] = start[burnin:]
    if "final_index" in batch:
        rest["final_index"] = batch["final_index"] - burnin * start.shape[1]
        rest["final_obs"] = batch["final_obs"]
    return rest


# What PPO does differently with a model that remembers.


@torch.no_grad()
def sequence_values(policy: Policy, block: Block, units: RunningMeanStd, recompute: bool) -> tuple[Tensor, Tensor]:
    """Return V(s_t) and V(s_{t+1}), both `[T, N]`, see `estimate_values`."""
    keys = [key for key in ("obs", "last_obs", "final_obs", "final_index") if key in block]
    batch: Batch = {key: block[key] for key in keys}
    batch["episode_start"] = block["episode_step"] == 0
    batch["prev_state"] = tree_map(lambda leaf: leaf[0], block["prev_state"])
    output, next_value_TN = unroll(partial(policy._run, policy.model, mode="compute_critic"), "value", batch)
    value_TN = units.denormalize(output["value"]) if recompute else block["value"]
    next_value_TN = units.denormalize(next_value_TN).to(value_TN.dtype)
    if "stand_in" in block:  # another agent's value stands for that of an agent that is out of the game
        return value_TN.gather(1, block["stand_in"]), next_value_TN.gather(1, block["next_stand_in"])
    return value_TN, next_value_TN


def by_environment(rows: dict[str, Any]) -> dict[str, Any]:
    """Return tensors `[T, N, ...]` as `[N, T, ...]`, and `prev_state` as that of the first row, `[N, ...]`."""
    first = {key: tree_map(lambda leaf: leaf[0], rows[key]) for key in ("prev_state",) if key in rows}
    others = {key: value for key, value in rows.items() if key not in first}
    return tree_map(lambda leaf: leaf.transpose(0, 1), others) | first


def sequence_minibatches(samples_N: Batch, batch_size: int, sizes: list[int]) -> list[Batch]:
    """Return minibatches of whole sequences, of what `by_environment` returned and N of every rank.

    They have about `batch_size` env steps per rank; `obs` is `[T, B, ...]`, `prev_state` `[B, ...]` and
    `episode_start` `[T, B]`; all others are `[T B, ...]`, including `weight` if the sizes of the ranks differ.
    """
    n_step, batches = samples_N["episode_step"].shape[1], []
    for part in minibatches(samples_N, max(1, round(batch_size / n_step)), sizes):
        whole = {"prev_state": part.pop("prev_state"), "episode_start": part.pop("episode_step").t() == 0}
        whole["obs"] = tree_map(lambda leaf: leaf.transpose(0, 1), part.pop("obs"))
        if "weight" in part and part["weight"].ndim == 1:  # of ranks, not of steps
            part["weight"] = part["weight"].unsqueeze(1).expand(-1, n_step)
        batches.append(tree_map(lambda leaf: leaf.transpose(0, 1).flatten(0, 1), part) | whole)
    return batches


def evaluate_sequences(policy: Policy, batch: Batch) -> dict[str, Any]:
    """Return `logit` and `value`, `[T B, ...]`, of a minibatch of `sequence_minibatches`."""
    states = {key: batch[key] for key in ("prev_state", "episode_start")}
    output = policy._run(policy.model, batch["obs"], mode="compute_actor_critic", **states)
    return tree_map(lambda leaf: leaf.flatten(0, 1), {key: output[key] for key in ("logit", "value")})
