"""DQN and PPO with the auxiliary loss of ST-DIM, spatio-temporal deep infomax (Anand et al. 2019, arXiv:1906.08226).

The loss of each algorithm is increased by `aux_loss_weight` times the contrastive loss InfoNCE,

    -mean_i log [ exp <x_i, y_i> / sum_j exp <x_j, y_i> ],   x_i = f(e(s_i)),   y_i = g(e(s'_i)),

where e is the encoder of the policy's model, s_i and s'_i an observation and the next one, and f and g two further
networks. It is small if features of the next observation tell which observation came before it, among all of the batch.
The encoder so learns what changes in time, also without rewards. `rl_utils/contrastive.py` has the general form, with
several embeddings and a factor of the scores.

The sum over j is over the joined batch of all ranks. Every rank computes the loss of the joined batch, but only its own
samples carry a gradient to the encoder.

Shapes: B samples of this rank, C of the other ranks, F features of the encoder, H and K embeddings of E features.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ding_lite.model.encoders import encode_zeros
from ding_lite.model.mlp import PairEmbedding
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import (
    DOUBLE_KEYS,
    DQN_KEYS,
    LEARNING_RATE_KEYS,
    NOISY_KEYS,
    ROLLOUT_KEYS,
    SPREAD_KEYS,
)
from ding_lite.policy.policy_gradient.ppo import PPO_EPOCH_KEYS, PPO_KEYS, PPOPolicy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.contrastive import info_nce
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import next_obs, samples_of_others
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError

STDIM_KEYS: dict[str, Any] = dict(
    aux_loss_weight=Key(0.001, "weight of the contrastive loss; that of the algorithm's own loss is 1", low=0),
    aux_model=dict(
        encode_shape=Key(64, "features of an embedding", low=1),
        heads=Key([1, 1], "numbers of embeddings of an observation and of the next one", type=list[int], low=1),
        temperature=Key(1.0, "what the scores of pairs are multiplied by", above=0),
    ),
)


class STDIMPolicy(Policy):
    """What ST-DIM adds to a policy, whose class is the second base class of a class that has this one as its first."""

    def _create_model(self) -> nn.Module:
        model, cfg = super()._create_model(), self._cfg
        encoder = getattr(model, "encoder", None)
        if encoder is None:
            raise ConfigError(
                f"policy '{cfg.type}' contrasts what the `encoder` of its model returns, but {type(model).__name__} "
                "has no such part: leave out policy.model.share_encoder=False, or give your own model one."
            )
        size = encode_zeros(encoder, cfg.model["obs_shape"]).shape[-1]
        model.aux_model = PairEmbedding(size, cfg.aux_model.encode_shape, cfg.aux_model.heads)
        return model

    def _ready(self, batch: Batch) -> Batch:
        batch = super()._ready(batch)
        if get_world_size() == 1:
            return batch
        with torch.no_grad():
            return batch | {"others": samples_of_others(self._encode(batch))}

    def _encode(self, batch: Batch) -> Tensor:
        """Return the features of `obs` and of `next_obs` `[B, 2, F]`."""
        model: Any = self._model
        return torch.stack([self._run(model.encoder, batch[key]) for key in ("obs", "next_obs")], 1)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the sum of both losses, and the figures. With several ranks, the batch has `others` `[C, 2, F]`.

        Every rank embeds the joined batch, so f and g get the same gradient on all of them, and the mean over ranks is
        that gradient. The encoder gets only the part of this rank's samples. It is multiplied by the number of ranks
        and divided by the weight of this rank, so that the weighted mean over ranks is the sum of all parts.
        """
        loss, figures = super()._loss(batch)
        pair_B2F = self._encode(batch)
        if "others" in batch:
            scale, features = get_world_size() / self._optimizer.weight, pair_B2F.detach()
            own_B2F = features + scale * (pair_B2F - features)  # changes the gradient alone
            pair_B2F = torch.cat([own_B2F, batch["others"]])
        model: Any = self._model
        x_BHE, y_BKE = model.aux_model(*pair_B2F.unbind(1))
        aux_loss = info_nce(x_BHE, y_BKE, self._cfg.aux_model.temperature)
        return loss + self._cfg.aux_loss_weight * aux_loss, figures | {"aux_loss": aux_loss.detach()}


@POLICY_REGISTRY.register("dqn_stdim")
class DQNSTDIMPolicy(STDIMPolicy, DQNPolicy):
    """DQN with ST-DIM. Override `_loss` to change the objective."""

    key_groups = (DQN_KEYS, LEARNING_RATE_KEYS, SPREAD_KEYS, DOUBLE_KEYS, NOISY_KEYS, STDIM_KEYS)
    config: ClassVar[dict[str, Any]] = dict(type="dqn_stdim", nstep=1)
    logged_figures = (*DQNPolicy.logged_figures, "aux_loss")


@POLICY_REGISTRY.register("ppo_stdim")
class PPOSTDIMPolicy(STDIMPolicy, PPOPolicy):
    """PPO with ST-DIM. Override `_loss` to change the objective."""

    key_groups = (ROLLOUT_KEYS, LEARNING_RATE_KEYS, PPO_KEYS, PPO_EPOCH_KEYS, STDIM_KEYS)
    config: ClassVar[dict[str, Any]] = dict(type="ppo_stdim")
    recurrent = False
    logged_figures = (*PPOPolicy.logged_figures, "aux_loss")

    def _targets(self, block: Block, epoch: int) -> dict[str, Any]:
        follows = self._arrange({"next_obs": next_obs(block)}) if epoch == 0 else {}
        return super()._targets(block, epoch) | follows
