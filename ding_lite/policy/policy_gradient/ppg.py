"""Phasic policy gradient, PPG (Cobbe et al. 2021, arXiv:2009.04416): PPO, and now and then an auxiliary phase.

Policy and value are separate networks, so that neither disturbs the other. A *policy phase* is a collect and PPO's
updates from it, see `ppo.py`; it also keeps the observations and the returns R that the values should predict. After
every `aux_freq` policy phases, an *auxiliary phase* distils what the values have learned into the policy's network. It
makes `aux_train_epoch` passes over all that was kept, and minimises

    L_joint + value_weight L_value
    L_joint = 1/2 mean (V_aux(s) - R)^2 + aux_bc_weight mean KL(pi_old(. | s) || pi(. | s))
    L_value = 1/2 mean (V(s) - R)^2

where V_aux is a second head of the policy's network, used for nothing else, and pi_old the policy at the beginning of
the phase, which the second term preserves.

Shapes: T steps, N environments, M samples of a collect, B samples of a minibatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.common_keys import LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import flatten_rows
from ding_lite.policy.policy_gradient.ppo import PPO_EPOCH_KEYS, PPO_KEYS, PPOPolicy
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import kl_divergence
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import minibatches, rank_sizes
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map


@POLICY_REGISTRY.register("ppg")
class PPGPolicy(PPOPolicy):
    """PPG for discrete, multi-discrete, continuous or hybrid actions. Override `_loss` to change the objective."""

    # no AGENT_KEYS: what it keeps of its environments has no agents
    key_groups = (ROLLOUT_KEYS, LEARNING_RATE_KEYS, PPO_KEYS, PPO_EPOCH_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="ppg",
        learn=dict(
            epoch_per_collect=1,
            learning_rate=0.001,
            entropy_weight=0.01,
            adv_norm=False,
            value_norm=False,
            grad_clip_value=10.0,
            aux_freq=Key(8, "collects from one auxiliary phase to the next", low=1),
            aux_train_epoch=Key(6, "passes over the kept samples in an auxiliary phase", low=1),
            aux_bc_weight=Key(1.0, "weight of KL(pi_old || pi) in an auxiliary phase", low=0),
        ),
    )
    model_type = "ppg"
    recurrent = False
    logged_figures = (*PPOPolicy.logged_figures, "auxiliary_loss", "clone_loss")

    def _init_learn(self) -> None:
        super()._init_learn()
        # `obs` and `return_` `[N, T, ...]` of the collects since the last auxiliary phase, by their numbers
        self._kept: dict[str, dict[str, Any]] = {}

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        yield from super()._batches(samples)
        if len(self._kept) < self._cfg.learn.aux_freq:
            return
        parts, self._kept = [flatten_rows(part) for part in self._kept.values()], {}
        with torch.no_grad():
            for part in parts:
                part["logit"] = self._run(self._model, part["obs"], mode="compute_actor")["logit"]
        samples_M = tree_map(lambda *leaves: torch.cat(leaves), *parts)
        samples_M["return_"] = self._value_stats.normalize(samples_M["return_"])
        sizes = rank_sizes(len(samples_M["return_"]))
        for _ in range(self._cfg.learn.aux_train_epoch):
            yield from minibatches(samples_M, self._cfg.learn.batch_size, sizes)

    def _targets(self, block: Block, epoch: int) -> dict[str, Tensor]:
        targets_M = super()._targets(block, epoch)
        if epoch == 0:
            return_TN = self._value_stats.denormalize(targets_M["return_"]).view_as(block["reward"])
            rows = {"obs": block["obs"], "return_": return_TN}
            # copies, because the collector writes its next rows into the same block
            self._kept[str(len(self._kept))] = tree_map(lambda leaf: leaf.transpose(0, 1).clone(), rows)
        return targets_M

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of a minibatch of PPO, or of an auxiliary phase.

        The latter has no `adv`; its `logit` is that of pi_old, and `return_` is in the model's units.
        """
        if "adv" in batch:
            return super()._loss(batch)
        learn, weight_B = self._cfg.learn, batch.get("weight")
        output = self._run(self._model, batch["obs"], mode="compute_auxiliary")
        auxiliary_loss = 0.5 * weighted_mean((output["auxiliary_value"] - batch["return_"]).square(), weight_B)
        value_loss = 0.5 * weighted_mean((output["value"] - batch["return_"]).square(), weight_B)
        clone_loss = weighted_mean(kl_divergence(batch["logit"], output["logit"]), weight_B)
        joint_loss = auxiliary_loss + learn.aux_bc_weight * clone_loss
        figures = {"auxiliary_loss": auxiliary_loss, "clone_loss": clone_loss, "value_loss": value_loss}
        return joint_loss + learn.value_weight * value_loss, {key: value.detach() for key, value in figures.items()}

    def local_state_dict(self) -> dict[str, Any]:
        return super().local_state_dict() | {"kept": self._kept}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        super().load_local_state_dict({key: part for key, part in state.items() if key != "kept"})
        self._kept = tree_map(lambda leaf: leaf.to(self._device), state["kept"])
