"""The networks of BCQ: critics, a variational autoencoder of the data's actions, and an actor that changes its actions.

Shapes: B samples, D dimensions of an action, Z = 2 D of a latent vector, C = 2 critics, `...` any leading dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ActionShape, ObsShape, single_size, with_arguments_of
from ding_lite.model.mlp import MLP
from ding_lite.model.qac import CriticNetwork
from ding_lite.model.vac import ActorCritic
from ding_lite.utils.registry import MODEL_REGISTRY


class PairNetwork(nn.Module):
    """An encoder of observations, and a head that maps its features and a vector to numbers.

    Args:
        encoder: maps observations to features.
        sizes: number of features plus that of the vector, sizes of the hidden layers, size of the output.
        **layers: activation and normalisation, see `MLP`.
    """

    def __init__(self, encoder: nn.Module, sizes: Sequence[int], **layers: Any) -> None:
        super().__init__()
        self.encoder, self.head = encoder, MLP(sizes, output=True, **layers)

    def forward(self, obs: Tensor, vector: Tensor) -> Tensor:
        """Return `[..., B, sizes[-1]]` for observations `[B, ...]` and vectors `[..., B, V]`."""
        x = self.encoder(obs)
        return self.head(torch.cat([x.expand(*vector.shape[:-1], -1), vector], dim=-1))


@MODEL_REGISTRY.register("bcq")
class BCQ(ActorCritic):
    """The networks of BCQ (Fujimoto et al. 2019, arXiv:1812.02900). `offline/policy/bcq.py` puts them together.

    `critic` returns Q_c(s, a), `[C, ..., B]`. The others are a `PairNetwork` each: `vae.encoder` maps an action to mean
    and log sigma of its latent vector, `vae.decoder` a latent vector to an action before tanh, and `actor` an action to
    its change before tanh. They share no parameters.

    Args:
        action_shape: D.
        actor_head_hidden_size: sizes of the hidden layers of the actor.
        critic_head_hidden_size: sizes of the hidden layers of each critic.
        vae_hidden_dims: sizes of the hidden layers of the encoder, and of the decoder.
        phi: the largest change of an action.
        **options: see `ActorCritic`.
    """

    modes: ClassVar[tuple[str, ...]] = ()

    @with_arguments_of(ActorCritic, without=("actor_head_layer_num", "critic_head_layer_num", "encoder", "critic_obs"))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        actor_head_hidden_size: Sequence[int] = (400, 300),
        critic_head_hidden_size: Sequence[int] = (400, 300),
        vae_hidden_dims: Sequence[int] = (750, 750),
        phi: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, **options)
        self.phi, size = phi, single_size(action_shape)
        self.latent_size = 2 * size

        def pair(vector: int, hidden: Sequence[int], output: int) -> PairNetwork:
            return PairNetwork(self.new_encoder(), [self.size + vector, *hidden, output], **self.layer_options)

        self.actor = pair(size, actor_head_hidden_size, size)
        sizes = [self.size + size, *critic_head_hidden_size]
        self.critic = CriticNetwork(self.new_encoder(), sizes, num=2, **self.layer_options)
        self.vae = nn.Module()
        self.vae.encoder = pair(size, vae_hidden_dims, 2 * self.latent_size)
        self.vae.decoder = pair(self.latent_size, vae_hidden_dims, size)
