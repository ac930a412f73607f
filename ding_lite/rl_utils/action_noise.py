"""Noise that is added to continuous actions. Shapes: N environments, D dimensions of an action."""

from __future__ import annotations

from torch import Tensor


def ornstein_uhlenbeck(noise_ND: Tensor, normal_ND: Tensor, sigma: float, theta: float = 0.15) -> Tensor:
    """Return the next value of noise that is correlated in time, x' = x - theta x + sigma eps.

    Started at 0, its standard deviation grows to sigma / sqrt(1 - (1 - theta)^2), which is 1.9 sigma by default, and it
    forgets within about 1 / theta steps. Source: Lillicrap et al. 2015, arXiv:1509.02971, section 7.

    Args:
        noise_ND: x, the value before this step.
        normal_ND: eps, standard normal numbers.
        sigma: standard deviation of a step.
        theta: the share of x that is lost in a step.
    """
    return noise_ND * (1.0 - theta) + sigma * normal_ND
