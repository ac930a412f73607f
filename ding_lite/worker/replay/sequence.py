"""The view that makes sequences of steps, for recurrent networks and for returns such as V-trace.

Shapes: B sequences, T rows of each, L rows of which are learned from or burnt in, K rewards of an n-step sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import discounts, nstep_sums
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.schedule import Scheduled
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.ring import Ring


class SequenceView:
    """Makes sequences of successive rows of one environment. They may start at any row and may cross episodes.

    A sequence consists of the burn-in steps, then the steps to learn from, then n - 1 rows that the last n-step sums
    need: L = burnin_step + unroll_len and T = L + nstep - 1. A batch of B sequences holds:

    * `obs` and all other columns of the ring except `prev_state`, `[T, B, ...]`, as they were stored.
    * `episode_start` `[T, B]`: whether the row is the first of its episode, where a recurrent state is reset.
    * `prev_state` `[B, ...]`, if the policy stores this column: the recurrent state before the first row.
    * `reward` `[L, B]`: the discounted sum of up to n rewards; it ends where the trajectory is cut.
    * `done` `[L, B]`: whether the last summed step was terminal.
    * `value_gamma` `[L, B]`: the discount of the value that follows, gamma^(number of summed rewards).
    * `last_step` `[L, B]`: the row of the last summed step, 0 to T - 1.
    * `last_obs` `[B, ...]`: the true observation after the last row, also where an episode ended.
    * `final_obs` `[K, ...]` and `final_index` `[K]`, only if trajectories were truncated in earlier rows: their K true
      final observations, and their places `t * B + b`.

    The n-step targets are `reward + value_gamma * ~done * next_value.gather(0, last_step)`. `next_value` `[T, B]` holds
    the values of `obs[1:]` and `last_obs`; at the places `final_index`, the values of `final_obs` replace them.

    * `reward_1`, `done_1` `[L, B]`, with `one_step`: those of the row itself.

    If the policy stores a column `discount`, it has the discount of each environment, which replaces `gamma`.

    The arguments are those of `create_ring_and_view`.
    """

    joined = False  # the first dimension of a batch is not B

    def __init__(
        self,
        unroll_len: int,
        burnin_step: int = 0,
        nstep: int = 1,
        gamma: float = 0.99,
        device: torch.device | str = "cpu",
        one_step: bool = False,
    ) -> None:
        self._one_step = one_step
        self.span, self._length, self._nstep = burnin_step + unroll_len + nstep - 1, burnin_step + unroll_len, nstep
        self._step_T1 = torch.arange(self.span, device=device)[:, None]
        self._gamma, self._discount_K = gamma, discounts(float(gamma), nstep, device)

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> Batch:
        place_TB = ring.later(drawn["index"], self._step_T1)
        place_M = place_TB.flatten()  # M = T B
        rows = ring.rows(place_M, without=("obs", "prev_state"))
        rows |= {"obs": ring.observations(place_M), "episode_start": ring.episode_step.index_select(0, place_M) == 0}
        batch = tree_map(lambda leaf: leaf.view(*place_TB.shape, *leaf.shape[1:]), rows)
        if "prev_state" in ring.columns:
            state = ring.columns["prev_state"]
            batch["prev_state"] = tree_map(lambda column: column.index_select(0, drawn["index"]), state)
        batch["last_obs"] = ring.successors(place_TB[-1])
        bootstraps = (ring.slot[place_TB] >= 0) & ~batch["done"]
        final_index = bootstraps[:-1].flatten().nonzero().squeeze(1)
        if len(final_index):
            batch["final_index"], batch["final_obs"] = final_index, ring.successors(place_M[final_index])
        if self._one_step:
            batch |= {f"{key}_1": batch[key][: self._length] for key in ("reward", "done")}
        return batch | self._sum_rewards(batch)

    def _sum_rewards(self, batch: Batch) -> dict[str, Tensor]:
        """Return the n-step `reward`, `done`, `value_gamma` and `last_step`, each `[L, B]`."""
        if isinstance(self._gamma, Scheduled):
            self._discount_K = discounts(self._gamma.current(), self._nstep, self._discount_K.device)
        step_L1, discount_K, own = self._step_T1[: self._length], self._discount_K, batch.get("discount")
        if own is not None:
            discount_K = own[:1] ** torch.arange(self._nstep + 1, device=own.device)[:, None, None]  # [K, 1, B]
        if self._nstep == 1:
            like = batch["reward"]
            return {"value_gamma": discount_K[1].expand_as(like), "last_step": step_L1.expand_as(like)}
        reward_KLB, cut_KLB = (batch[key].unfold(0, self._nstep, 1).movedim(-1, 0) for key in ("reward", "traj_flag"))
        reward_LB, steps_LB = nstep_sums(reward_KLB, cut_KLB, discount_K)
        last_LB = step_L1 + steps_LB - 1
        batch = {"reward": reward_LB, "done": batch["done"].gather(0, last_LB), "last_step": last_LB}
        return batch | {"value_gamma": discount_K[steps_LB] if own is None else own[0] ** steps_LB}
