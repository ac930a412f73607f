"""Normalisation of the features of dense layers, under DI-engine's key `norm_type`."""

from __future__ import annotations

from torch import nn

from ding_lite.utils.registry import ConfigError


def with_norm(layer: nn.Module, size: int, norm_type: str | None) -> nn.Module:
    """Return a layer followed by the normalisation of its output, which precedes the activation.

    Args:
        layer: a layer without activation.
        size: number of its output features.
        norm_type: 'LN': layer normalisation (Ba et al. 2016, arXiv:1607.06450); None: the layer itself.

    Raises:
        ConfigError: another type.
    """
    check_norm_type(norm_type)
    return layer if norm_type is None else nn.Sequential(layer, nn.LayerNorm(size))


def check_norm_type(norm_type: str | None) -> None:
    """Check `policy.model.norm_type`.

    Raises:
        ConfigError: it is neither None nor 'LN'. Batch normalisation is not offered, because the statistics of a batch
            would be those of one rank's share, so that N processes would not take the step of one.
    """
    if norm_type not in (None, "LN"):
        raise ConfigError(
            f"policy.model.norm_type must be None or 'LN', got {norm_type!r}: statistics of a batch would differ "
            "between ranks. Use 'LN', layer normalisation, whose statistics are those of each sample."
        )
