"""The encoder of observations that consist of several arrays. Shapes: B samples, F features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation, find_activation, with_norm

ObsShape = int | Sequence[int] | Mapping[str, Any]  # of a vector, of an image, or a dict of these


class DictEncoder(nn.Module):
    """Encodes each part of a dict of vectors, images and further dicts, and joins their features with a dense layer.

    Parts of an observation that have no shape are ignored.

    Args:
        obs_shape: the shape of each part.
        hidden_size_list: sizes of the layers of each part's encoder; the last one is also F. Without layers, the
            features are the vectors themselves, concatenated.
        activation: see `Activation`.
        create_encoder: returns the encoder of a part for these arguments; by name it takes `norm_type`.
        norm_type: normalisation of the dense layers, see `with_norm`.
    """

    def __init__(
        self,
        obs_shape: Mapping[str, Any],
        hidden_size_list: Sequence[int],
        activation: Activation,
        create_encoder: Callable[..., nn.Module],
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self._keys, self._activation = sorted(obs_shape), find_activation(activation)
        self.encoders = nn.ModuleList(
            create_encoder(obs_shape[key], hidden_size_list, activation, norm_type=norm_type) for key in self._keys
        )
        size = hidden_size_list[-1] if hidden_size_list else 0
        self.join = with_norm(nn.Linear(size * len(self._keys), size), size, norm_type) if size else None

    def forward(self, obs: Mapping[str, Any]) -> Tensor:
        """Return features `[B, F]` for a dict of arrays `[B, ...]`."""
        parts = [encoder(obs[key]) for key, encoder in zip(self._keys, self.encoders, strict=True)]
        x = torch.cat(parts, dim=-1)
        return x if self.join is None else self._activation(self.join(x))


def feature_size(obs_shape: ObsShape, hidden_size_list: Sequence[int]) -> int:
    """Return the number of features of the encoder that `create_encoder` returns for these arguments."""
    if hidden_size_list:
        return hidden_size_list[-1]
    if isinstance(obs_shape, Mapping):
        return sum(feature_size(shape, ()) for shape in obs_shape.values())
    return obs_shape if isinstance(obs_shape, int) else obs_shape[0]
