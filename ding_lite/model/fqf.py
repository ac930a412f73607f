"""The networks of FQF, which choose the probabilities of their quantiles.

Shapes: B samples, A discrete actions, K quantiles, H features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.iqn import QuantileHead
from ding_lite.model.mlp import ActionShape, create_encoder, single_size
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


class FractionHead(nn.Linear):
    """Maps features `[B, H]` to the logarithms `[B, K]` of the lengths of K intervals that fill [0, 1].

    At first they are almost equal (Yang et al. 2019, arXiv:1911.02140, section 4.1). FQF trains this layer with its own
    optimizer.

    Args:
        hidden_size: H.
        num_quantiles: K.
    """

    def __init__(self, hidden_size: int, num_quantiles: int) -> None:
        super().__init__(hidden_size, num_quantiles)
        nn.init.xavier_uniform_(self.weight, gain=0.01)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype)).log_softmax(-1)


@MODEL_REGISTRY.register("fqf")
class FQF(nn.Module):
    """Quantiles of the return of each action, with probabilities that depend on the state (arXiv:1911.02140).

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        num_quantiles: K.
        quantile_embedding_size: numbers that represent a probability, see `QuantileHead`.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        noise: use noisy layers in the head, see `NoisyLinear`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        num_quantiles: int = 32,
        quantile_embedding_size: int = 128,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        size = encoder_hidden_size_list[-1]
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        sizes = (head_hidden_size or size, single_size(action_shape), head_layer_num, quantile_embedding_size)
        self.head = QuantileHead(*sizes, activation, norm_type, noise=noise, input_size=size)
        self.fraction = FractionHead(size, num_quantiles)

    def forward(self, obs: Tensor, boundaries: bool = False) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `quantiles` `[B, K + 1]` are the ends of the intervals, from 0 to 1; only their gradient flows to `fraction`.
        `quantiles_hats` `[B, K]` are the midpoints of the intervals, `q` `[B, K, A]` the quantiles there, and `logit`
        `[B, A]` their means, weighted by the lengths of the intervals: the action values. `entropies` `[B, 1]` are the
        entropies of the lengths. With `boundaries`, `q_tau_i` `[B, K - 1, A]` are the quantiles at the inner ends,
        without gradient.
        """
        feature_BH = self.encoder(obs)
        log_length_BK = self.fraction(feature_BH.detach())
        length_BK = log_length_BK.exp()
        end_BK1 = functional.pad(length_BK.cumsum(-1), (1, 0))
        middle_BK = ((end_BK1[:, 1:] + end_BK1[:, :-1]) / 2).detach()
        q_BKA = self.head(feature_BH, middle_BK).transpose(0, 1)
        output = {
            "logit": (q_BKA * length_BK.detach()[..., None]).sum(1),
            "q": q_BKA,
            "quantiles": end_BK1,
            "quantiles_hats": middle_BK,
            "entropies": -(log_length_BK * length_BK).sum(-1, keepdim=True),
        }
        if boundaries:
            with torch.no_grad():
                output["q_tau_i"] = self.head(feature_BH, end_BK1[:, 1:-1]).transpose(0, 1)
        return output
