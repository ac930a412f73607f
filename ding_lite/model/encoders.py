"""Encoders of observations: the choice of one, residual blocks, IMPALA's network, and dicts of observations.

Shapes: B samples, F features, C channels, H x W pixels.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ObsShape
from ding_lite.model.image import ConvEncoder, ImageConv, ImageDense
from ding_lite.model.mlp import MLP, Activation, check_norm_type, find_activation, with_norm
from ding_lite.utils.key import activation_name
from ding_lite.utils.registry import ENCODER_REGISTRY, ConfigError, EncoderChoice
from ding_lite.utils.tree import MASK, leave_out, tree_map


def create_encoder(
    obs_shape: ObsShape,
    hidden_size_list: Sequence[int],
    activation: Activation = "relu",
    encoder: EncoderChoice = None,
    norm_type: str | None = None,
    hidden: Sequence[str] = (),
) -> nn.Module:
    """Return a fully connected encoder for vectors, a convolutional one for images, or a `DictEncoder`.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of shapes. The encoder does
            not see a part `action_mask`; if there is only one other part, it gets the encoder of its shape.
        hidden_size_list: sizes of the layers; the last one is the number of features. Without layers, vectors are the
            features themselves.
        activation: see `Activation`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
        norm_type: normalisation of the dense layers, see `with_norm`.
        hidden: dotted paths of more parts that the encoder does not see.
    """
    check_norm_type(norm_type)
    activation = activation_name(activation)
    if isinstance(obs_shape, Mapping) and (hidden or MASK in obs_shape):
        parts = leave_out(obs_shape, (MASK, *hidden))
        if not parts:
            raise ConfigError(
                "The observations are a Dict with an action_mask alone: expected another part to learn from."
            )
        key, shape = next(iter(parts.items())) if len(parts) == 1 else (None, parts)
        return PartEncoder(create_encoder(shape, hidden_size_list, activation, encoder, norm_type), parts, key)
    if encoder is not None:
        return named_encoder(encoder, obs_shape, hidden_size_list, activation=activation, norm_type=norm_type)
    if isinstance(obs_shape, Mapping):
        return DictEncoder(obs_shape, hidden_size_list, activation, norm_type=norm_type)
    shape = [obs_shape] if isinstance(obs_shape, int) else list(obs_shape)
    if len(shape) == 1:
        return MLP([shape[0], *hidden_size_list], activation, norm_type=norm_type)
    if len(shape) == 3:
        return ConvEncoder(shape, hidden_size_list, activation, norm_type=norm_type)
    raise ConfigError(
        f"policy.model.obs_shape must be a length or (channels, height, width), got {obs_shape}: flatten observations "
        "with env.wrappers=['FlattenObservation'], or set policy.model.encoder to one of your own."
    )


def named_encoder(
    encoder: EncoderChoice,
    obs_shape: ObsShape,
    hidden_size_list: Sequence[int],
    activation: str,
    norm_type: str | None = None,
) -> nn.Module:
    """Return an encoder of a class in `ENCODER_REGISTRY`.

    The class is called with `(obs_shape, hidden_size_list, activation=activation, **options)`. Its module maps
    observations `[B, ...]` to features `[B, hidden_size_list[-1]]`. If it has the attribute `obs_dims`, 1 for vectors
    or 3 for images, it encodes observations with that many dimensions and, in a dict of observations, the parts that
    have them. The other parts get the encoder of their shape. Without the attribute, it encodes whatever the
    observation is. `norm_type` is passed to a class that has this argument, unless it is one of the options.
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
        chosen = {key: encoder for key, shape in obs_shape.items() if dims in _dims_of(shape)}
        return DictEncoder(obs_shape, hidden_size_list, activation, encoders=chosen, norm_type=norm_type)
    shape = [obs_shape] if isinstance(obs_shape, int) else obs_shape
    if norm_type is not None and "norm_type" in inspect.signature(cls).parameters:
        options.setdefault("norm_type", norm_type)
    module: nn.Module = cls(shape, hidden_size_list, activation=activation, **options)
    _check_features(name, module, obs_shape=shape, size=hidden_size_list[-1])
    return module


def residual_head_sizes(encoder: EncoderChoice) -> tuple[int, int, int] | None:
    """Return `SimBaEncoder.head_sizes` if this is the encoder; None for encoders that only encode observations."""
    name = encoder.get("type", "") if isinstance(encoder, Mapping) else encoder
    return None if name is None else getattr(ENCODER_REGISTRY.find(name), "head_sizes", None)


def _dims_of(obs_shape: ObsShape) -> Iterator[int]:
    """Yield the number of dimensions of an observation, or of each part of a dict."""
    if isinstance(obs_shape, Mapping):
        for part in obs_shape.values():
            yield from _dims_of(part)
    else:
        yield 1 if isinstance(obs_shape, int) else len(obs_shape)


@torch.no_grad()
def encode_zeros(module: nn.Module, obs_shape: ObsShape) -> Any:
    """Return what an encoder returns for one observation of zeros; it is in training mode afterwards."""
    module.eval()  # running statistics of the module must not see this observation
    features = module(_zeros(obs_shape))
    module.train()
    return features


def _check_features(name: str, module: nn.Module, obs_shape: ObsShape, size: int) -> None:
    """Raise `ConfigError` if the module does not map one observation to `size` features."""
    features = encode_zeros(module, obs_shape)
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


class PartEncoder(nn.Module):
    """Encodes those parts of a dict of observations that have a shape; of a single part, `key`, without the dict."""

    def __init__(self, encoder: nn.Module, shapes: dict[str, Any], key: str | None) -> None:
        super().__init__()
        self.encoder, self._shapes, self._key = encoder, shapes, key

    def forward(self, obs: Mapping[str, Any]) -> Tensor:
        """Return features `[B, F]` for a dict of arrays `[B, ...]`."""
        seen = tree_map(lambda _, leaf: leaf, self._shapes, obs)
        return self.encoder(seen if self._key is None else seen[self._key])


class DictEncoder(nn.Module):
    """Encodes each part of a dict of vectors, images and further dicts, and joins their features with a dense layer.

    Parts of an observation that have no shape are ignored. Without layers, the features are the vectors themselves,
    concatenated. `encoders` names encoders of parts, see `named_encoder`; the others get the encoder of their shape.
    """

    def __init__(
        self,
        obs_shape: Mapping[str, Any],
        hidden_size_list: Sequence[int],
        activation: Activation,
        encoders: Mapping[str, EncoderChoice] = {},
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self._keys, self._activation = sorted(obs_shape), find_activation(activation)
        self.encoders = nn.ModuleList(
            create_encoder(obs_shape[key], hidden_size_list, activation, encoder=encoders.get(key), norm_type=norm_type)
            for key in self._keys
        )
        size = hidden_size_list[-1] if hidden_size_list else 0
        self.join = with_norm(nn.Linear(size * len(self._keys), size), size, norm_type) if size else None

    def forward(self, obs: Mapping[str, Any]) -> Tensor:
        """Return features `[B, F]` for a dict of arrays `[B, ...]`."""
        parts = [encoder(obs[key]) for key, encoder in zip(self._keys, self.encoders, strict=True)]
        x = torch.cat(parts, dim=-1)
        return x if self.join is None else self._activation(self.join(x))


def feature_size(obs_shape: ObsShape, hidden_size_list: Sequence[int], hidden: Sequence[str] = ()) -> int:
    """Return the number of features of the encoder that `create_encoder` returns for these arguments."""
    if hidden_size_list:
        return hidden_size_list[-1]
    return encode_zeros(create_encoder(obs_shape, (), hidden=hidden), obs_shape).shape[-1]  # it has no parameters


class DenseBlock(nn.Module):
    """A residual block of two linear layers f and g: activation(x + g(activation(f(x))))."""

    def __init__(self, one: nn.Module, two: nn.Module, activation: Activation) -> None:
        super().__init__()
        self.one, self.two, self._activation = one, two, find_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return self._activation(x + self.two(self._activation(self.one(x))))


@ENCODER_REGISTRY.register("fc")
class FCEncoder(MLP):
    """Maps vectors to features by dense layers.

    Args:
        obs_shape: the length of a vector, as a number or as a list.
        hidden_size_list: sizes of the layers.
        res_block: one linear layer, then a residual block (see `DenseBlock`) for each number of the list. The numbers
            must be equal.
        activation: see `Activation`.
        norm_type: 'LN': layer normalisation after each linear layer, before the activation; None: none.
        layer_norm: True is another name of norm_type='LN'.
    """

    obs_dims: ClassVar[int] = 1

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        hidden_size_list: Sequence[int],
        res_block: bool = False,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        layer_norm: bool = False,
    ) -> None:
        if res_block:
            _check_equal(".res_block=True", hidden_size_list)
        sizes = [obs_shape if isinstance(obs_shape, int) else obs_shape[0], *hidden_size_list]
        norm_type = "LN" if layer_norm else norm_type
        super().__init__(sizes[:2] if res_block else sizes, activation, norm_type=norm_type)
        if res_block:  # `MLP` puts the activation after the first layer only; a block ends with its own
            size = sizes[1]
            for _ in hidden_size_list:
                one, two = (with_norm(nn.Linear(size, size), size, norm_type) for _ in range(2))
                self.append(DenseBlock(one, two, activation))


def _check_equal(option: str, sizes: Sequence[int]) -> None:
    if len(set(sizes)) > 1:
        raise ConfigError(
            f"policy.model.encoder{option} needs layers of one size: set policy.model.encoder_hidden_size_list to "
            f"equal numbers, got {list(sizes)}."
        )


@ENCODER_REGISTRY.register("simba")
class SimBaEncoder(MLP):
    """Maps vectors to features by residual blocks with layer normalisation, as SimBa does (see `MLP`).

    The critics of a `QAC` need such a network for observations and actions together. Without
    `encoder_hidden_size_list`, the heads of `ActorCritic` therefore consist of these layers.

    Args:
        obs_shape: a list of the length of a vector.
        hidden_size_list: equal numbers, the size of each residual block.
        activation: see `Activation`; the paper's is 'relu'.
    """

    obs_dims: ClassVar[int] = 1
    head_sizes: ClassVar[tuple[int, int, int]] = (128, 512, 2)  # the paper's: actor, critic, blocks of a critic

    def __init__(
        self, obs_shape: Sequence[int], hidden_size_list: Sequence[int], activation: Activation = "relu"
    ) -> None:
        _check_equal("='simba'", hidden_size_list)
        super().__init__([obs_shape[0], hidden_size_list[0], *hidden_size_list], activation, residual=True)


class ConvBlock(nn.Module):
    """A residual block of two 3 x 3 convolutions f and g: x + g(activation(f(activation(x))))."""

    def __init__(self, channels: int, activation: Activation) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self._activation = find_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(self._activation(self.one(self._activation(x))))


class IMPALAConvEncoder(nn.Module):
    """Maps images to features by the residual network of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, figure 3).

    Each section consists of a 3 x 3 convolution, 3 x 3 max pooling with stride 2, and residual blocks (see
    `ConvBlock`). Then come the activation, a dense layer, and the activation again. Borders are padded by one pixel, so
    a section halves height and width, rounded up.

    Args:
        obs_shape: C, H, W.
        channels: channels of each section. The paper's are the defaults, here and below.
        outsize: size of the dense layer.
        scale_ob: what uint8 images are divided by. Images of floats are left as they are.
        nblock: residual blocks of each section.
        activation: see `Activation`.
        norm_type: 'LN': layer normalisation after the dense layer, before the activation; None: none.
    """

    obs_dims: ClassVar[int] = 3

    def __init__(
        self,
        obs_shape: Sequence[int],
        channels: Sequence[int] = (16, 32, 32),
        outsize: int = 256,
        scale_ob: float = 255.0,
        nblock: int = 2,
        *,
        activation: Activation = "relu",
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self._activation = find_activation(activation)
        _, height, width = obs_shape
        first = ImageConv(obs_shape[0], channels[0], 3, padding=1)
        first.scale = scale_ob
        sections: list[nn.Module] = []
        for before, size in zip((obs_shape[0], *channels), channels, strict=False):
            sections.append(nn.Conv2d(before, size, 3, padding=1) if sections else first)
            sections.append(nn.MaxPool2d(3, stride=2, padding=1))
            sections += [ConvBlock(size, activation) for _ in range(nblock)]
            height, width = (height + 1) // 2, (width + 1) // 2
        self.sections = nn.Sequential(*sections)
        self.dense = with_norm(ImageDense(channels[-1], outsize, (height, width)), outsize, norm_type)

    def forward(self, x: Tensor) -> Tensor:
        """Return features `[B, outsize]` for images `[B, C, H, W]`."""
        return self._activation(self.dense(self._activation(self.sections(x))))


@ENCODER_REGISTRY.register("impala")
class IMPALAEncoder(IMPALAConvEncoder):
    """Maps images to features by the residual convolutions of IMPALA, see `IMPALAConvEncoder`.

    Args:
        obs_shape: C, H, W.
        hidden_size_list: channels of three sections, then the size of the dense layer. With three numbers, the dense
            layer has the last section's size. The paper's are 16, 32, 32, 256.
        activation: see `Activation`; the paper's is 'relu'.
        nblock: residual blocks of each section.
        norm_type: 'LN': layer normalisation after the dense layer, before the activation; None: none.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        hidden_size_list: Sequence[int],
        activation: Activation = "relu",
        nblock: int = 2,
        norm_type: str | None = None,
    ) -> None:
        if len(hidden_size_list) not in (3, 4):
            raise ConfigError(
                "policy.model.encoder_hidden_size_list for the encoder 'impala' must be the channels of three sections "
                f"and the size of a dense layer, like [16, 32, 32, 256], got {list(hidden_size_list)}."
            )
        channels, outsize = hidden_size_list[:3], hidden_size_list[-1]
        super().__init__(obs_shape, channels, outsize, nblock=nblock, activation=activation, norm_type=norm_type)
