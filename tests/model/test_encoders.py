"""Dense residual blocks, layer normalisation, and the network of IMPALA, against their equations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ding_lite.model import ConvEncoder, FCEncoder, IMPALAConvEncoder, create_encoder
from ding_lite.model.encoders import DenseBlock, IMPALAEncoder, feature_size
from ding_lite.utils import ConfigError
from tests.model.models import MODELS, backward, build, run


def fill(layer: nn.Module, weight: list[list[float]], bias: list[float]) -> nn.Module:
    layer.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return layer


def test_residual_blocks_follow_a_first_dense_layer() -> None:
    encoder, x = FCEncoder([3], [5, 5], True, "tanh"), torch.randn(7, 3)
    first, *blocks = encoder
    expected = torch.tanh(first(x))
    assert len(blocks) == 2  # one for each number of the list
    for block in blocks:
        assert isinstance(block, DenseBlock)
        expected = torch.tanh(expected + block.two(torch.tanh(block.one(expected))))
    torch.testing.assert_close(encoder(x), expected)
    assert encoder(x).shape == (7, 5)


def test_layers_are_normalised_before_the_activation() -> None:
    encoder: Any = FCEncoder(1, [4], layer_norm=True)
    fill(encoder[0][0], [[1.0], [2.0], [3.0], [4.0]], [0.0] * 4)
    # 1, 2, 3, 4 have mean 2.5 and variance 1.25; x = 2 doubles all, which changes nothing but epsilon's part
    expected = torch.tensor([-1.5, -0.5, 0.5, 1.5]) / 1.25**0.5
    torch.testing.assert_close(encoder(torch.tensor([[1.0], [2.0]])), expected.relu().expand(2, 4), atol=1e-4, rtol=0)


def convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A 3 x 3 convolution of one image, with one pixel of zeros around it: numpy and loops."""
    height, width = x.shape[1:]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    y = np.empty((len(weight), height, width))
    for i in range(height):
        for j in range(width):
            y[:, i, j] = np.tensordot(weight, padded[:, i : i + 3, j : j + 3], 3) + bias
    return y


def pool(x: np.ndarray) -> np.ndarray:
    """Maxima over 3 x 3 pixels around every second pixel."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    rows, columns = range(0, x.shape[1], 2), range(0, x.shape[2], 2)
    return np.array([[padded[:, i : i + 3, j : j + 3].max((1, 2)) for j in columns] for i in rows]).transpose(2, 0, 1)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_impala_equals_the_papers_figure(memory_format: torch.memory_format) -> None:
    encoder = IMPALAConvEncoder((2, 9, 7), [3, 4, 4], 6).double()
    images = torch.randn(2, 2, 9, 7, dtype=torch.float64)
    weights = iter([value.numpy().copy() for value in encoder.state_dict().values()])
    encoder.to(memory_format=memory_format)  # type: ignore[call-overload]  # torch's hints lack it
    features, values = encoder(images), list(weights)
    for image, feature in zip(images.numpy(), features, strict=True):
        rest = iter(values)
        x = image
        for _ in range(3):
            x = pool(convolve(x, next(rest), next(rest)))
            for _ in range(2):
                y = convolve(np.maximum(x, 0), next(rest), next(rest))
                x = x + convolve(np.maximum(y, 0), next(rest), next(rest))
        assert x.shape == (4, 2, 1)  # 9 x 7, 5 x 4, 3 x 2, 2 x 1
        dense, bias = next(rest), next(rest)
        expected = np.maximum(dense.reshape(6, -1) @ np.maximum(x, 0).ravel() + bias, 0)
        np.testing.assert_allclose(feature.detach().numpy(), expected, atol=1e-12)


def test_impala_scales_bytes_and_has_the_papers_sizes() -> None:
    encoder = IMPALAConvEncoder((3, 72, 96))
    x = torch.randint(256, (2, 3, 72, 96), dtype=torch.uint8)
    torch.testing.assert_close(encoder(x), encoder(x / 255))
    sizes = [module.out_channels for module in encoder.modules() if isinstance(module, nn.Conv2d)]
    assert sizes == [16] * 5 + [32] * 10 + [256]  # 15 convolutions and a dense layer, as the paper counts
    assert encoder.dense.kernel_size == (9, 12)


def test_in_a_config_impalas_sizes_are_one_list() -> None:
    one = IMPALAConvEncoder((3, 8, 8), [4, 5, 6], 9, nblock=1)
    for sizes, last in (([4, 5, 6, 9], 9), ([4, 5, 6], 6)):
        torch.manual_seed(0)
        encoder = IMPALAEncoder((3, 8, 8), sizes, nblock=1)
        assert encoder(torch.rand(2, 3, 8, 8)).shape == (2, last)
        if last == 9:
            torch.testing.assert_close(encoder.state_dict(), one.state_dict(), rtol=0, atol=0)


def test_the_positions_of_the_arguments_are_those_of_di_engine() -> None:
    """`FCEncoder(obs_shape, hidden_size_list, res_block, activation, norm_type)`, `ConvEncoder(obs_shape)`."""
    encoder = FCEncoder(4, [64, 64], True, nn.Tanh(), "LN")
    assert [type(layer) for layer in encoder] == [nn.Sequential, DenseBlock, DenseBlock]
    assert FCEncoder((4,), (6, 5))(torch.rand(2, 4)).shape == (2, 5)
    sizes = [layer.out_channels for layer in ConvEncoder([4, 84, 84]) if isinstance(layer, nn.Conv2d)]
    assert sizes == [32, 64, 64, 128]
    assert IMPALAConvEncoder((4, 16, 16))(torch.rand(1, 4, 16, 16)).shape == (1, 256)


TWO_KINDS = {"image": [3, 44, 44], "vector": 5}
KERNELS = ([4, 4, 8], "relu", [4, 3], [2, 1])  # of two convolutions
# A call that cannot build an encoder, and its error; 1 pixel needs 3 of the first layer's output: 2 * 2 + 4 - 2 = 6.
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: FCEncoder(3, [5, 6], res_block=True), r"res_block=True needs layers of one .* got \[5, 6\]"),
    (lambda: create_encoder(3, [5, 6], encoder="simba"), "encoder='simba' needs layers of one size: .* equal"),
    (lambda: IMPALAEncoder((3, 8, 8), [16, 256]), r"three sections .* like \[16, 32, 32, 256\], got \[16, 256\]"),
    (lambda: create_encoder([4, 84], [32]), "obs_shape"),
    (lambda: create_encoder([4, 20, 20], [32, 64, 64, 512]), "too small"),
    (lambda: create_encoder([4, 84, 84], [128, 64]), "encoder_hidden_size_list"),
    (lambda: create_encoder(4, [32], "relus"), "activation"),
    (lambda: create_encoder(4, [8, 8], encoder="impala"), r"'impala' encodes images \(channels, .* got obs_shape 4"),
    (lambda: create_encoder([3, 8, 8], [8, 8], encoder="fc"), r"'fc' encodes vectors, got obs_shape \[3, 8, 8\]"),
    (lambda: create_encoder(dict(a=4, b=dict(c=[5])), [8, 8], encoder="conv"), "'conv' encodes images"),
    (lambda: create_encoder(4, [], encoder="fc"), r"'fc' needs the sizes of its layers: set .*encoder_hidden_size"),
    (lambda: create_encoder(TWO_KINDS, ()), "for images must be the channels"),
    (lambda: ConvEncoder([3, 20, 20], [4, 4, 8], "relu", [4, 3], [2]), r"stride=\[2\], padding=\[0, 0\]: give"),
    (lambda: ConvEncoder([3, 20, 20], [4] * 4, *KERNELS[1:]), r"of 2 convolutions, .* like \[64, 64, 512\], got"),
    (lambda: ConvEncoder([3, 5, 20], *KERNELS, [1, 0]), r"kernel_size=\[4, 3\] and stride=\[2, 1\], images need 6 x 6"),
]
NEED_LAYERS = ("continuous_bc", "continuous_qac", "discrete_qac", "hybrid_qac", "qac_dist")  # have none of their own
FOR_IMAGES = r"^policy\.model\.encoder_hidden_size_list for images must be the .*got \[\]"
REFUSED += [(partial(build, name, obs_shape=TWO_KINDS), FOR_IMAGES) for name in NEED_LAYERS]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_cannot_be_built_is_one_clear_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_the_smallest_image_of_some_kernels_is_encoded() -> None:
    assert ConvEncoder([3, 6, 6], *KERNELS, [1, 0])(torch.rand(1, 3, 6, 6)).shape == (1, 8)


SHAPE = dict(camera=[1, 36, 36], body=dict(joints=5, goal=[2]))
SIZES = [4, 6, 8]


def draw(batch_size: int = 3) -> dict[str, Any]:
    body = {"joints": torch.randn(batch_size, 5), "goal": torch.randn(batch_size, 2)}
    camera = torch.randint(256, (batch_size, 1, 36, 36), dtype=torch.uint8)
    return {"camera": camera, "body": body, "ignored": torch.zeros(batch_size)}


def test_each_part_is_encoded_and_one_layer_joins_them() -> None:
    encoder: Any = create_encoder(SHAPE, SIZES, "relu")
    obs = draw()
    body, camera = encoder.encoders  # in the order of the alphabet
    goal, joints = body.encoders
    inner = torch.cat([goal(obs["body"]["goal"]), joints(obs["body"]["joints"])], dim=1)
    features = torch.cat([torch.relu(body.join(inner)), camera(obs["camera"])], dim=1)
    torch.testing.assert_close(encoder(obs), torch.relu(encoder.join(features)))
    assert encoder(obs).shape == (3, 8)


def test_without_layers_the_features_are_the_vectors_themselves() -> None:
    shape = dict(joints=5, goal=[2])
    obs = draw()["body"]
    assert torch.equal(create_encoder(shape, (), "relu")(obs), torch.cat([obs["goal"], obs["joints"]], dim=1))
    assert feature_size(shape, ()) == feature_size(7, ()) == 7
    assert feature_size(SHAPE, SIZES) == 8


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_an_image_and_a_vector(name: str) -> None:
    model = build(name, obs_shape=TWO_KINDS, encoder_hidden_size_list=[4, 4, 4, 8], activation="tanh")
    obs = {"image": torch.randint(256, (3, 3, 44, 44), dtype=torch.uint8), "vector": torch.randn(3, 5)}
    outputs = run(model, obs)
    backward(outputs)
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    for part, other in (("image", 255 - obs["image"]), ("vector", obs["vector"] + 1)):
        torch.manual_seed(0)
        changed = run(model, {**obs, part: other})
        assert not all(map(torch.equal, outputs, changed))
