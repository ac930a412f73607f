"""The Q-network of IQN, whose quantiles are a function of their probabilities.

Shapes: B samples, A discrete actions, K quantiles, H features, E numbers that represent a probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import ActionShape, create_encoder, single_size
from ding_lite.model.q_learning import DiscreteHead
from ding_lite.model.qrdqn import midpoints
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


class QuantileHead(nn.Module):
    """Maps features, and probabilities tau, to the quantiles of the return of each action.

    Z_tau(s, a) = f(psi(s) * phi(tau))_a,   phi_j(tau) = ReLU(sum_{e=1}^E cos(pi e tau) w_ej + b_j)

    psi are the features and f is a fully connected network (Dabney et al. 2018, arXiv:1806.06923, eq. 4). The paper's
    sum begins at e = 0, which adds a constant, as b_j does.

    Args:
        hidden_size: size of the hidden layers.
        output_size: A.
        layer_num: hidden layers before the output.
        quantile_embedding_size: E.
        activation: see `Activation`.
        norm_type: normalisation of the hidden layers of f, see `with_norm`.
        noise: use noisy layers in f, see `NoisyLinear`.
        input_size: H, if it is not `hidden_size`.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        quantile_embedding_size: int = 128,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        input_size: int | None = None,
    ) -> None:
        super().__init__()
        sizes = (hidden_size, output_size, layer_num)
        self.Q = DiscreteHead(*sizes, activation, norm_type, noise=noise, input_size=input_size)
        self.phi = nn.Linear(quantile_embedding_size, hidden_size if input_size is None else input_size)

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        """Return quantiles `[K, B, A]` for features `[B, H]` and probabilities `[B, K]`."""
        number_E = torch.arange(1, self.phi.in_features + 1, dtype=tau.dtype, device=tau.device)
        phi_KBH = functional.relu(self.phi((math.pi * number_E * tau.t()[..., None]).cos()))
        return self.Q(x * phi_KBH)


@MODEL_REGISTRY.register("iqn")
class IQN(nn.Module):
    """Quantiles of the return of each discrete action for any probabilities (Dabney et al. 2018, arXiv:1806.06923).

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        num_quantiles: K if no probabilities are given.
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
        self._num_quantiles = num_quantiles
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        size = encoder_hidden_size_list[-1]
        sizes = (head_hidden_size or size, single_size(action_shape), head_layer_num, quantile_embedding_size)
        self.head = QuantileHead(*sizes, activation, norm_type, noise=noise, input_size=size)

    def forward(self, obs: Tensor, tau: Tensor | None = None) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]` and probabilities `[B, K]`.

        `q` `[K, B, A]` are the quantiles, `quantiles` `[K, B, 1]` their probabilities, and `logit` `[B, A]` the means
        of the quantiles, the action values. Without `tau` the probabilities are (i + 1/2) / K.
        """
        feature_BH = self.encoder(obs)
        if tau is None:
            tau = midpoints(self._num_quantiles, next(self.head.parameters())).expand(feature_BH.shape[0], -1)
        q_KBA = self.head(feature_BH, tau)
        return {"logit": q_KBA.mean(0), "q": q_KBA, "quantiles": tau.t()[..., None]}
