"""Builds the encoder that `policy.model.encoder` names, and says how to do without one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import DictEncoder, ObsShape
from ding_lite.utils.registry import ENCODER_REGISTRY, ConfigError, EncoderChoice


def named_encoder(
    encoder: EncoderChoice,
    obs_shape: ObsShape,
    hidden_size_list: Sequence[int],
    activation: str,
    create_encoder: Callable[..., nn.Module],
    norm_type: str | None = None,
) -> nn.Module:
    """Return an encoder of a class in `ENCODER_REGISTRY`.

    The class is called with `(obs_shape, hidden_size_list, activation=activation, **options)`. Its module maps
    observations `[B, ...]` to features `[B, hidden_size_list[-1]]`. If it has the attribute `obs_dims`, 1 for vectors
    or 3 for images, it encodes observations with that many dimensions and, in a dict of observations, the parts that
    have them. The other parts get the encoder of their shape. Without the attribute, it encodes whatever the
    observation is.

    Args:
        encoder: a name; or a dict of `type`, the name, and options of the class.
        obs_shape: see `create_encoder` for this and the next two.
        hidden_size_list: sizes of the layers, in the order that the class determines.
        activation: a key of `ACTIVATIONS`.
        create_encoder: the function of this name, for the parts of a dict.
        norm_type: passed to a class that has this argument, unless it is one of the options.

    Raises:
        ConfigError: no class has this name, it does not encode this observation, or it returns other features.
    """
    options = {"type": encoder} if isinstance(encoder, str) else dict(encoder or {})
    name = options.pop("type", "")
    cls = ENCODER_REGISTRY.find(name)
    if not hidden_size_list:
        raise ConfigError(
            f"policy.model.encoder '{name}' needs the sizes of its layers: set policy.model.encoder_hidden_size_list."
        )
    dims = getattr(cls, "obs_dims", None)
    if dims is not None and dims not in _dims_of(obs_shape):
        kind = "vectors" if dims == 1 else "images (channels, height, width)"
        raise ConfigError(
            f"policy.model.encoder '{name}' encodes {kind}, got obs_shape {obs_shape}: choose another one."
        )
    if dims is not None and isinstance(obs_shape, Mapping):

        def encode_part(shape: ObsShape, sizes: Sequence[int], activation: Activation, **norm: Any) -> nn.Module:
            return create_encoder(shape, sizes, activation, encoder if dims in _dims_of(shape) else None, **norm)

        return DictEncoder(obs_shape, hidden_size_list, activation, encode_part, norm_type)
    shape = [obs_shape] if isinstance(obs_shape, int) else obs_shape
    if norm_type is not None and "norm_type" in inspect.signature(cls).parameters:
        options.setdefault("norm_type", norm_type)
    module: nn.Module = cls(shape, hidden_size_list, activation=activation, **options)
    _check_features(name, module, shape, hidden_size_list[-1])
    return module


def _dims_of(obs_shape: ObsShape) -> Iterator[int]:
    """Yield the number of dimensions of an observation, or of each part of a dict."""
    if isinstance(obs_shape, Mapping):
        for part in obs_shape.values():
            yield from _dims_of(part)
    else:
        yield 1 if isinstance(obs_shape, int) else len(obs_shape)


@torch.no_grad()
def _check_features(name: str, module: nn.Module, obs_shape: ObsShape, size: int) -> None:
    """Raise `ConfigError` if the module does not map one observation to `size` features."""
    module.eval()  # running statistics of the module must not see this observation
    features: Any = module(_zeros(obs_shape))
    module.train()
    shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
    if shape != [1, size]:
        raise ConfigError(
            f"policy.model.encoder '{name}' must return features [B, {size}], whose number is the last one of "
            f"encoder_hidden_size_list, got {shape} for one observation."
        )


def _zeros(obs_shape: ObsShape) -> Any:
    if isinstance(obs_shape, Mapping):
        return {key: _zeros(part) for key, part in obs_shape.items()}
    return torch.zeros(1, *([obs_shape] if isinstance(obs_shape, int) else obs_shape))


def no_encoder(obs_shape: ObsShape) -> ConfigError:
    """Return the error for observations of a shape that no built-in encoder takes."""
    return ConfigError(
        f"policy.model.obs_shape must be a length or (channels, height, width), got {obs_shape}: flatten observations "
        "with env.wrappers=['FlattenObservation'], or set policy.model.encoder to one of your own."
    )
