"""Networks that embed the two halves of pairs, so that a contrastive loss can compare them.

Shapes: B pairs, F features, H and K embeddings of each half of a pair, E features of an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ding_lite.model.mlp import MLP
from ding_lite.utils.registry import ConfigError


class PairEmbedding(nn.Module):
    """Two networks of dense layers with ReLU, one for each half of a pair.

    Args:
        input_size: F.
        encode_shape: E.
        heads: H and K.
    """

    def __init__(self, input_size: int, encode_shape: int = 64, heads: Sequence[int] = (1, 1)) -> None:
        super().__init__()
        if len(heads) != 2:
            raise ConfigError(f"policy.aux_model.heads: expected two numbers such as [1, 1], got {list(heads)}.")
        self._encode_shape = encode_shape
        self.x_encoder, self.y_encoder = (MLP([input_size, 128, 128, number * encode_shape]) for number in heads)

    def forward(self, x_BF: Tensor, y_BF: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings `[B, H, E]` and `[B, K, E]` of the halves."""
        size = (-1, self._encode_shape)
        return self.x_encoder(x_BF).unflatten(-1, size), self.y_encoder(y_BF).unflatten(-1, size)
