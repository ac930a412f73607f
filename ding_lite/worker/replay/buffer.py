"""Replay buffers, each composed of three independent parts: `ReplayBuffer(ring, sampler, view)`.

The ring stores steps. The sampler chooses the places at which the samples of a batch start. The view turns a place into
a sample. The registered buffers (`uniform`, `prioritized`, `sequence`) build the parts from their options. To add a
part, write a class with the methods of `Sampler` or `View`, and register a buffer that uses it:

    @BUFFER_REGISTRY.register("my_replay")
    class MyReplayBuffer(ReplayBuffer):
        config = dict(share=0.1)  # defaults of the options that this buffer adds

        def __init__(self, replay_buffer_size, num_envs, share=0.1, seed=0, batch_device=None, **options):
            ring, view = create_ring_and_view(replay_buffer_size, num_envs, **options)
            super().__init__(ring, MySampler(share, seed), view, batch_device)

All randomness belongs to the sampler, whose state is part of a checkpoint.

Shapes: B samples, K rewards of an n-step sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ding_lite.rl_utils.common import discounts, nstep_sums
from ding_lite.torch_utils.data import Batch, Block
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.ring import Ring, Sampler, View
from ding_lite.worker.replay.state import load_replay_state, replay_state

GATHER_AT_ONCE = {"cpu": 2**20, "cuda": 2**28}  # bytes of observations that are gathered together, by the device


class ReplayBuffer:
    """Stores rollout blocks (`push`), yields batches of samples (`batches`), and takes new priorities (`update`).

    With a prioritized sampler, `push`, `sample` and `batches` are collective calls: all ranks make them equally often,
    with equally many samples.

    `batch_device` is the device of the batches; None: the ring's.

    Attributes:
        graphs: two `CudaGraphs`, which gather the batches of a `View.joined` on a GPU, in turn: the error message about
            a step, which is known during the next one, describes its batch. None: every kernel is launched.

    Raises:
        ConfigError: the ring has too few rows for one sample.
    """

    config: ClassVar[dict[str, Any]] = dict()
    graphs: tuple[Any, Any] | None = None
    first_updates = 0

    def __init__(
        self, ring: Ring, sampler: Sampler, view: View, batch_device: torch.device | str | None = None
    ) -> None:
        if ring.num_rows < (needed := view.span + ring.stack):
            raise ConfigError(
                f"replay of {ring.num_envs} environments has {ring.num_rows} rows, too few rows to sample from: "
                f"expected at least {needed}; set replay_buffer_size higher"
            )
        self.ring, self.sampler, self.view = ring, sampler, view
        self._batch_device = ring.device if batch_device is None else batch_device

    def count(self) -> int:
        """Return the number of samples that can be drawn."""
        return len(self.ring.starts(self.view.span)) * self.ring.num_envs

    def push(self, block: Block) -> None:
        """Store a rollout block `[T, N, ...]` (see `SampleCollector`) in place of the oldest rows."""
        part = self.ring.part(block)
        part.push(block)
        self.sampler.pushed(part, len(block["reward"]), self.view.span)

    def sample(self, batch_size: int) -> Batch:
        """Return one batch, see `batches`."""
        return next(self.batches(batch_size, 1))

    def batches(self, batch_size: int, number: int) -> Iterator[Batch]:
        """Yield batches for several learner iterations.

        A batch contains the samples that the view makes and the tensors that the sampler adds. `index` `[B]` holds the
        places of the samples, for `update`. Priorities that are updated after one batch apply to the next.

        Raises:
            ValueError: the buffer does not hold enough steps for a sample.
        """
        starts = self.ring.starts(self.view.span)
        if not starts:
            raise ValueError("the replay buffer holds too few steps for a sample: push more steps first, see count()")
        at_once = 1  # number of batches
        if self.view.joined and not self.sampler.adaptive:
            batch_bytes = 2 * self.ring.obs_bytes() * batch_size
            at_once = max(GATHER_AT_ONCE[self.ring.device.type] // max(batch_bytes, 1), 1)
        while number > 0:
            group = min(at_once, number)
            number -= group
            drawn = self.sampler.draw(self.ring, starts, batch_size * group)
            samples = self._gather(drawn) | drawn
            samples = tree_map(lambda leaf: leaf.to(self._batch_device, non_blocking=True), samples)
            if group == 1:
                yield samples
            else:
                parts = tree_map(lambda leaf: leaf.view(group, -1, *leaf.shape[1:]).unbind(), samples)  # noqa: B023 (called at once)
                yield from (tree_map(lambda part: part[i], parts) for i in range(group))  # noqa: B023

    def _gather(self, drawn: dict[str, Tensor]) -> dict[str, Any]:
        if self.graphs is None or not self.view.joined:
            return self.view.gather(self.ring, drawn)
        self.graphs = graphs = self.graphs[::-1]
        # The columns stay where they are; the side table is replaced when it grows.
        key = self.ring.finals.capacity
        return graphs[0].run(lambda drawn: self.view.gather(self.ring, drawn), drawn, key)

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities `[B]` of samples; `index` `[B]` is that of their batch."""
        self.sampler.update(index, priority)

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        """Raise `ConfigError` if a compiled config contradicts what the buffer does."""

    def fit(self, *args: Any, **kwargs: Any) -> None:
        """Fit the buffer to a run; here nothing.

        The arguments are those of `OfflineDataset.fit`, and `create_env`, which builds one of the run's environments.
        """

    def truncate(self, env_index_K: Tensor, obs: Any) -> None:
        """Truncate trajectories whose episodes could not be restored in a resumed run, see `Ring.truncate`."""
        self.ring.truncate(env_index_K, obs)

    def state_dict(self) -> dict[str, Any]:
        """Return everything on which later samples depend, see `replay_state`."""
        return replay_state(self.ring, self.sampler, self.view)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, see `load_replay_state`."""
        load_replay_state(self.ring, self.sampler, self.view, state)
        for graphs in self.graphs or ():
            graphs.forget()


class UniformSampler(Sampler):
    """Draws every sample with the same probability."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, ring: Ring, starts: range, number: int) -> dict[str, Tensor]:
        row_B = self._rng.integers(starts.start, starts.stop, number)
        place_B = ring.places(row_B, self._rng.integers(ring.num_envs, size=number))
        return {"index": torch.from_numpy(place_B).to(ring.device)}

    def integers(self, high: int, number: int) -> Tensor:
        """Return this many integers from 0 to below `high`, drawn uniformly."""
        return torch.from_numpy(self._rng.integers(high, size=number))

    def state_dict(self) -> dict[str, Any]:
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rng.bit_generator.state = state["rng"]


class TransitionView:
    """Makes n-step transitions.

    A batch holds every column at the given places, `[B, ...]`, with these changes:

    * `reward`: the discounted sum of up to n rewards; it ends where the trajectory is cut.
    * `done`, `traj_flag`: those of the last summed step.
    * `next_obs`, if asked for: the true observation after the last summed step, also where an episode ended.
    * `value_gamma`: the discount of the value of `next_obs`, gamma^(number of summed rewards).
    * `reward_1`, `done_1`, `next_obs_1`, with `one_step`: what the first step alone has led to.

    The arguments are those of `create_ring_and_view`. A subclass may compute what the steps have led to, instead of
    reading it: it sets `computes` and overrides `_outcomes`.

    Attributes:
        rewards: returns the rewards of steps when they are drawn, `[B, K]`, for the ring and their places `[B, K]`.
            None: the rewards are those that were stored.
    """

    computes = False
    rewards: Callable[[Ring, Tensor], Tensor] | None = None

    def __init__(
        self,
        nstep: int = 1,
        gamma: float = 0.99,
        device: torch.device | str = "cpu",
        next_obs: bool = True,
        one_step: bool = False,
    ) -> None:
        self.span, self._next_obs, self._one_step = nstep, next_obs, one_step
        self._step_K = torch.arange(nstep, device=device)
        self._gamma, self._discount_K = gamma, discounts(float(gamma), nstep, device)
        self.joined = not isinstance(gamma, Scheduled)

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> Batch:
        if isinstance(self._gamma, Scheduled):
            self._discount_K = discounts(self._gamma.current(), self.span, self._discount_K.device)
        discount_K = self._discount_K
        place_B = last_B = drawn["index"]
        batch = ring.rows(place_B) | {"value_gamma": discount_K[1:2].expand(len(place_B))}
        if self.span > 1 or self.computes or self.rewards is not None:
            place_BK = ring.later(place_B[:, None], self._step_K)
            reward_BK, done_BK, cut_BK = self._outcomes(ring, drawn, place_BK)
            batch["reward"], steps_B = nstep_sums(reward_BK.T, cut_BK.T, discount_K)
            batch["value_gamma"] = discount_K[steps_B]
            last_B1 = (steps_B - 1).unsqueeze(1)
            batch["done"], batch["traj_flag"] = (each.gather(1, last_B1).squeeze(1) for each in (done_BK, cut_BK))
            last_B = ring.later(place_B, steps_B - 1)
        if self._next_obs:
            batch["next_obs"] = ring.successors(last_B)
        if self._one_step:
            batch |= {f"{key}_1": ring.columns[key].index_select(0, place_B) for key in ("reward", "done")}
            batch["next_obs_1"] = ring.successors(place_B)
        return batch | {"obs": ring.observations(place_B)}

    def _outcomes(self, ring: Ring, drawn: dict[str, Tensor], place_BK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return `reward`, `done` and `traj_flag` of the steps at these places, each `[B, K]`."""
        reward, done, cut = (ring.columns[key][place_BK] for key in ("reward", "done", "traj_flag"))
        return reward if self.rewards is None else self.rewards(ring, place_BK), done, cut


def create_ring_and_view(
    replay_buffer_size: int,
    num_envs: int,
    nstep: int = 1,
    gamma: float = 0.99,
    frame_stack: int = 0,
    device: torch.device | str = "cpu",
    unroll_len: int | None = None,
    burnin_step: int = 0,
    next_obs: bool = True,
    one_step: bool = False,
    num_actors: int = 0,
) -> tuple[Ring, View]:
    """Return a ring, and the view that makes the kind of samples that a policy learns from.

    Args:
        replay_buffer_size: capacity in samples, of all N environments together: in env steps if samples are
            transitions, else in sequences that do not overlap.
        num_envs: N; of each actor, if there are any.
        nstep: n, the largest number of rewards to sum.
        gamma: discount per env step; a `Scheduled` number is read for every batch.
        frame_stack: see `Ring`.
        device: the ring's device.
        unroll_len: number of steps of a sequence to learn from; None: samples are transitions.
        burnin_step: number of steps before these; they only bring the recurrent state up to date.
        next_obs: whether batches of transitions contain `next_obs`.
        one_step: whether they also contain what the first step alone has led to, see `TransitionView`; of sequences,
            what each step has.
        num_actors: number of actors whose blocks are stored, see `ActorRings`; 0: a collector's are.
    """
    create: Any = Ring
    if num_actors:
        from ding_lite.actors.actor_rings import ActorRings  # noqa: PLC0415

        create = partial(ActorRings, num_actors)
    total = num_envs * max(num_actors, 1)
    if unroll_len is None:
        ring = create(replay_buffer_size // total, num_envs, frame_stack, device)
        return ring, TransitionView(nstep, gamma, device, next_obs, one_step)
    from ding_lite.worker.replay.sequence import SequenceView  # noqa: PLC0415

    view = SequenceView(unroll_len, burnin_step, nstep, gamma, device, one_step)
    # Extra rows: one for the observation after the newest row, and those of a sample that exceed its unroll_len.
    num_rows = replay_buffer_size * unroll_len // total + view.span - unroll_len + max(frame_stack, 1)
    return create(num_rows, num_envs, frame_stack, device, keeps_last=True), view


@BUFFER_REGISTRY.register("uniform")
class UniformReplayBuffer(ReplayBuffer):
    """Replay that draws every sample with the same probability; `options` are those of `create_ring_and_view`."""

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        *,
        seed: int = 0,
        batch_device: torch.device | str | None = None,
        **options: Any,
    ) -> None:
        ring, view = create_ring_and_view(replay_buffer_size, num_envs, **options)
        super().__init__(ring, UniformSampler(seed), view, batch_device)


@BUFFER_REGISTRY.register("sequence")
class SequenceReplayBuffer(UniformReplayBuffer):
    """Replay that draws sequences uniformly, for policies with `unroll_len`."""

    def __init__(self, replay_buffer_size: int, num_envs: int, unroll_len: int | None = None, **options: Any) -> None:
        if unroll_len is None:
            raise ConfigError(
                "policy.other.replay_buffer.type='sequence' stores sequences of policy.unroll_len env steps, but this "
                "policy has no key unroll_len, because it learns from transitions: leave the type out."
            )
        super().__init__(replay_buffer_size, num_envs, unroll_len=unroll_len, **options)
