"""The twin Q-networks of SQN."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import ActionShape
from ding_lite.model.q_learning import DQN
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


@MODEL_REGISTRY.register("sqn")
class SQN(nn.Module):
    """Two independent Q-networks for discrete actions.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of an encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        dueling: compute Q from a value and advantages, see `DuelingHead`.
        head_hidden_size: size of a head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in a head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        sizes = (obs_shape, action_shape, encoder_hidden_size_list, dueling, head_hidden_size, head_layer_num)
        self.q0, self.q1 = (DQN(*sizes, activation, norm_type, encoder=encoder) for _ in range(2))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `q_value` `[2, B, A]` are the action values of both networks, and `logit` `[B, A]` those of the first.
        """
        q_CBA = torch.stack([self.q0(obs)["logit"], self.q1(obs)["logit"]])
        return {"q_value": q_CBA, "logit": q_CBA[0]}
