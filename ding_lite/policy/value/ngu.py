"""Never Give Up, NGU (Badia et al. 2020, arXiv:2002.06038): R2D2 with a family of policies that explore more and more.

One network is N policies, for the rewards r + beta_i r_i and with the discounts gamma_i. The intrinsic reward r_i and
beta_i are those of the reward model `ngu`, see `reward_model/episodic.py`. Policy 0 has beta_0 = 0 and the largest
discount: it plays in evaluations. Environment n of all ranks plays as policy n mod N, and its steps are learned from as
that policy's. The loss is that of R2D2, with the discount gamma_i of the sequence, see `family_discounts`.

Beside the observation, the network sees the number i as zeros and a one, the last action of the episode likewise, and
its reward from the environment, between -1 and 1; at the start of an episode, the last two are zeros. They are a part
`condition` of the observation, `[N + A + 1]`, which the encoder joins to the others.

Shapes: T rows of a sequence, B sequences, E environments, N policies of the family, A actions, C = A + 1.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.model.arguments import single_size
from ding_lite.policy.sequences import RecurrentPolicy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.policy.value.r2d2 import R2D2Policy
from ding_lite.rl_utils.exploration import family_discounts
from ding_lite.torch_utils.data import Batch, Figures, Output, Row
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves


@POLICY_REGISTRY.register("ngu")
class NGUPolicy(RecurrentPolicy, DQNPolicy):
    """NGU. It acts, stores and learns as R2D2 does; the family is part of what the network sees."""

    key_groups = R2D2Policy.key_groups
    config: ClassVar[dict[str, Any]] = merge_keys(
        R2D2Policy.config,
        dict(
            type="ngu",
            num_policies=Key(8, "N: policies of the family, at most as many as environments of all ranks", low=1),
            min_discount_factor=Key(
                0.99,
                "discount of the policy that explores most; discount_factor is that of the one that does not",
                low=0,
                high=1,
            ),
            unroll_len=80,
            priority=True,
            priority_IS_weight=True,
            other=dict(eps=dict(start=0.4, end=0.4, spread=8.0), replay_buffer=dict(replay_buffer_size=10000)),
        ),
    )
    model_type = R2D2Policy.model_type
    stored_outputs = (*RecurrentPolicy.stored_outputs, "member", "discount", "last")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        return R2D2Policy._loss(self, batch)  # type: ignore[arg-type]  # it uses RecurrentPolicy's methods

    def _create_model(self) -> nn.Module:
        model = {key: value for key, value in self._cfg.model.items() if key != "type"}
        shape = model["obs_shape"]
        parts = shape if isinstance(shape, dict) else {"observation": shape}
        model["obs_shape"] = {**parts, "condition": self._cfg.num_policies + self._num_actions + 1}
        network: nn.Module = MODEL_REGISTRY.find(self._cfg.model.get("type", self.model_type))(**model)
        return network

    @property
    def _num_actions(self) -> int:
        return single_size(self._cfg.model.get("action_shape"))

    def _join(self, obs: Any, member: Tensor, last: Tensor) -> dict[str, Any]:
        """Return observations `[..., *shape]` as a dict with the part `condition`, for members `[...]`."""
        parts = obs if isinstance(obs, dict) else {"observation": obs}
        return {**parts, "condition": torch.cat([F.one_hot(member, self._cfg.num_policies), last], -1)}

    def _describe(self, action: Tensor, reward: Any) -> Tensor:
        """Return the last action and its reward as the network sees them, `[..., C]`."""
        reward = torch.as_tensor(reward, dtype=torch.float32, device=self._device).clamp(-1.0, 1.0)
        return torch.cat([F.one_hot(action.to(self._device), self._num_actions), reward.unsqueeze(-1)], -1)

    def _last(self, obs: Any, explore: bool) -> Tensor:
        """Return what is known of the last steps `[E, C]` of the episodes whose observations these are."""
        zeros = torch.zeros(len(next(tree_leaves(obs))), self._num_actions + 1, device=self._device)
        last: Tensor = self._memory[explore].get("last", zeros)
        return last

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        cfg, last = self._cfg, self._last(obs, explore=True)
        member_E = (torch.arange(len(last), device=self._device) + self.env_place[0]) % cfg.num_policies
        output = super()._forward_collect(self._join(obs, member_E, last), eps, **kwargs)
        discount_N = family_discounts(cfg.num_policies, cfg.discount_factor, cfg.min_discount_factor)
        self._memory[True]["last"] = self._describe(output["action"], torch.zeros(len(last)))
        return output | {"member": member_E, "discount": discount_N.to(self._device)[member_E], "last": last}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        last = self._last(obs, explore=False)
        output = super()._forward_eval(self._join(obs, last.new_zeros(len(last), dtype=torch.int64), last))
        self._memory[False]["last"] = self._describe(output["action"], torch.zeros(len(last)))
        return output

    def see_reward(self, reward: np.ndarray, explore: bool = True) -> None:
        action_EA = self._memory[explore]["last"][:, :-1]
        self._memory[explore]["last"] = self._describe(action_EA.argmax(-1), reward)

    def _process_transition(self, obs: Any, policy_output: Output, timestep: SimpleNamespace) -> Row:
        row = super()._process_transition(obs, policy_output, timestep)
        self._memory[True]["last"] = self._describe(torch.as_tensor(policy_output["action"]), timestep.reward)
        return row | {"seen_reward": timestep.reward}

    def _prepare(self, batch: Batch) -> Batch:
        batch = super()._prepare(batch)
        member_TB, after_TBC = batch["member"], self._describe(batch["action"], batch["seen_reward"])
        batch["obs"] = self._join(batch["obs"], member_TB, batch["last"])
        batch["last_obs"] = self._join(batch["last_obs"], member_TB[-1], after_TBC[-1])
        if "final_index" in batch:
            index_K = batch["final_index"]
            member_K, after_KC = member_TB.flatten()[index_K], after_TBC.flatten(0, 1)[index_K]
            batch["final_obs"] = self._join(batch["final_obs"], member_K, after_KC)
        return batch
