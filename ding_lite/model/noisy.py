"""Noisy linear layers, whose noise makes a network explore (Fortunato et al. 2018, arXiv:1706.10295).

Shapes: B samples, P input features, Q output features of a layer.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from easydict import EasyDict
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError

Noise = dict[str, dict[str, Tensor]]  # noise of one forward pass: layer name -> `input` [B, P] and `output` [B, Q]


class NoisyLinear(nn.Module):
    """Linear layer with factorised Gaussian noise on its weights (equations 10 and 11 of the paper).

    In training mode, and in evaluation mode inside `exploring`, each sample of a batch has its own noise, so that
    environments explore independently. Otherwise the layer uses the means of its weights.

    sigma0 is the initial standard deviation of the noise, times the square root of P, the number of `in_features`.
    """

    def __init__(self, in_features: int, out_features: int, sigma0: float = 0.5) -> None:
        super().__init__()
        bound, sigma = 1 / math.sqrt(in_features), sigma0 / math.sqrt(in_features)
        self.weight_mu = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), sigma))
        self.bias_mu = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma))
        self._exploring = False
        self._noise: dict[str, Tensor] | None = None

    def draw_noise(self, batch_size: int) -> dict[str, Tensor]:
        """Return noise as `input` `[B, P]` and `output` `[B, Q]`: f(x) = sign(x) sqrt(|x|) of standard normal x."""
        size_out, size_in = self.weight_mu.shape
        sizes = {"input": size_in, "output": size_out}
        drawn = {name: self.weight_mu.new_empty(batch_size, size).normal_() for name, size in sizes.items()}
        return {name: x.sign() * x.abs().sqrt() for name, x in drawn.items()}

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., B, Q]` for features `[..., B, P]`; each sample has one noise in all leading dimensions."""
        mean = functional.linear(x, self.weight_mu, self.bias_mu)
        if not (self.training or self._exploring or self._noise is not None):
            return mean
        noise = self.draw_noise(x.shape[-2]) if self._noise is None else self._noise
        # This is (sigma * outer(output, input)) x for each sample, without storing a weight matrix per sample.
        return mean + noise["output"] * functional.linear(x * noise["input"], self.weight_sigma, self.bias_sigma)


@contextmanager
def exploring(layers: Sequence[NoisyLinear]) -> Iterator[None]:
    """Inside this block, noisy layers draw noise in evaluation mode too."""
    for layer in layers:
        layer._exploring = True
    try:
        yield
    finally:
        for layer in layers:
            layer._exploring = False


def request_noise(policy: EasyDict, default_type: str) -> None:
    """With `noisy_net`, set `noise=True` in `policy.model` if the model's class takes this argument.

    A class without the argument may use noisy layers all the same; `check_noisy` checks the model that it creates.
    """
    if not policy.get("noisy_net"):  # a policy may lack the key
        return
    model = policy.model
    parameters = inspect.signature(MODEL_REGISTRY.find(model.get("type", default_type))).parameters.values()
    if any(parameter.name == "noise" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        model.noise = True


def check_noisy(policy: EasyDict, module: nn.Module) -> None:
    """Check that with `noisy_net`, a key of the compiled `cfg.policy`, a module has noisy layers to explore with."""
    if policy.get("noisy_net") and not noisy_layers(module):
        raise ConfigError(
            f"policy.noisy_net=True explores by layers of the class ding_lite.model.NoisyLinear, but the model "
            f"{type(module).__name__} has none: use them in the model, for example if its argument noise is True, or "
            "set policy.noisy_net=False."
        )


def draw_noise(module: nn.Module, batch_size: int) -> Noise:
    """Return the noise of one forward pass, from torch's global generator, by the names of the noisy layers."""
    return {name: layer.draw_noise(batch_size) for name, layer in noisy_layers(module).items()}


@contextmanager
def given_noise(module: nn.Module, noise: Noise) -> Iterator[None]:
    """Inside this block, the noisy layers of a module use `noise` from `draw_noise` instead of drawing their own."""
    layers = noisy_layers(module)
    for name, own in noise.items():
        layers[name]._noise = own
    try:
        yield
    finally:
        for layer in layers.values():
            layer._noise = None


def noisy_layers(module: nn.Module) -> dict[str, NoisyLinear]:
    """Return the noisy layers of a module by their names."""
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, NoisyLinear)}
