"""The encoder of observations that consist of several arrays. Shapes: B samples, F features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class DictEncoder(nn.Module):
    """Encodes each part of a dict of vectors, images and further dicts, and joins the features.

    Parts of an observation that have no encoder are ignored.

    Args:
        encoders: an encoder for each key, which maps `[B, ...]` to features.
        join: maps the features of all parts, one after the other, to `[B, F]`.
    """

    def __init__(self, encoders: Mapping[str, nn.Module], join: nn.Module) -> None:
        super().__init__()
        self._keys = tuple(encoders)
        self.encoders, self.join = nn.ModuleList(encoders.values()), join

    def forward(self, obs: Mapping[str, Any]) -> Tensor:
        """Return features `[B, F]` for a dict of arrays `[B, ...]`."""
        parts = [encoder(obs[key]) for key, encoder in zip(self._keys, self.encoders, strict=True)]
        return self.join(torch.cat(parts, dim=-1))
