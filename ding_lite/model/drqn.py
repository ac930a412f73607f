"""The recurrent Q-network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import ActionShape, create_encoder, single_size
from ding_lite.model.q_learning import DiscreteHead, DuelingHead
from ding_lite.model.recurrent import RecurrentCore, run_core
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


@MODEL_REGISTRY.register("drqn")
class DRQN(nn.Module):
    """Q of discrete actions, given all observations of the episode so far (Hausknecht & Stone 2015, arXiv:1507.06527).

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size. The last one is also the size of the recurrent state.
        dueling: compute Q from a value and advantages, see `DuelingHead`.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        lstm_type: 'normal', 'pytorch' or 'gru', see `RecurrentCore`.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        res_link: add the encoder's features to those of the recurrent core.
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
        lstm_type: str = "normal",
        activation: Activation = "relu",
        norm_type: str | None = None,
        res_link: bool = False,
        *,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        size = encoder_hidden_size_list[-1]
        self._res_link = res_link
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        self.core = RecurrentCore(size, size, lstm_type)
        head = DuelingHead if dueling else DiscreteHead
        sizes = (head_hidden_size or size, single_size(action_shape), head_layer_num)
        self.head = head(*sizes, activation, norm_type, input_size=size)

    def forward(self, obs: Tensor, **sequence: Any) -> dict[str, Any]:
        """Return `logit` `[T, B, A]`, the action values, and states, for observations `[T, B, ...]`.

        Args:
            obs: sequences of observations.
            **sequence: the state before them, and where episodes start, see `run_core`, which also describes the
                states in the result.
        """
        y_TBH, x_TBF, states = run_core(self.encoder, self.core, obs, **sequence)
        return {"logit": self.head(y_TBH + x_TBF if self._res_link else y_TBH), **states}
