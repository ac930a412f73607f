"""The recurrent state-space model, RSSM, of DreamerV3 (Hafner et al. 2023, arXiv:2301.04104).

A state has a deterministic part h and a stochastic part z, S categorical variables with C classes each:

    h_t = f(h_{t-1}, z_{t-1}, a_{t-1})        a GRU
    z_t ~ q(z_t | h_t, x_t)                   the posterior, which sees the observation x_t
    z_t ~ p(z_t | h_t)                        the prior, which does not

Both distributions are mixed with 1 % of a uniform one. The gradient of a sample is that of its probabilities
(straight-through). The first state of an episode is computed from h = z = a = 0.

Shapes: T rows of a sequence, B sequences, H features of h, Z = S C features of z, E features of an observation, A
numbers of an action, X any leading dimensions.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.masks import one_hot
from ding_lite.model.mlp import MLP

State = dict[str, Tensor]  # `deter` `[X, H]`, h, and `stoch` `[X, Z]`, z


def feature_of(state: State) -> Tensor:
    """Return the features `[X, H + Z]` of states."""
    return torch.cat([state["deter"], state["stoch"]], -1)


def mix_uniform(logit: Tensor, share: float) -> Tensor:
    """Return log((1 - share) softmax(logit) + share / C), for logits `[..., C]`."""
    return ((1.0 - share) * logit.softmax(-1) + share / logit.shape[-1]).log()


def choose(logp: Tensor, noise: Tensor | None) -> Tensor:
    """Return classes `[...]` with these log-probabilities `[..., C]`, from uniform numbers `[...]`; None: the mode."""
    if noise is None:
        return logp.argmax(-1)
    below = logp.detach().exp().cumsum(-1) <= noise.unsqueeze(-1)
    return below.sum(-1).clamp(max=logp.shape[-1] - 1)  # the sum of all is rounded


def sample_classes(logp_XSC: Tensor, noise_XS: Tensor | None) -> Tensor:
    """Return a sample `[X, Z]` of S variables as zeros and ones, with the gradient of their probabilities."""
    prob_XSC = logp_XSC.exp()
    chosen_XSC = one_hot(choose(logp_XSC, noise_XS), logp_XSC.shape[-1]).to(prob_XSC.dtype)
    return (chosen_XSC + (prob_XSC - prob_XSC.detach())).flatten(-2)


class RSSM(nn.Module):
    """The networks f, q and p. They compute in the type of their parameters, even under autocast.

    Args:
        embed_size: E.
        action_size: A.
        deter: H.
        hidden: size of their hidden layers.
        stoch: S.
        classes: C.
        unimix: share of the uniform distribution.
    """

    def __init__(
        self, embed_size: int, action_size: int, deter: int, hidden: int, stoch: int, classes: int, unimix: float
    ) -> None:
        super().__init__()
        self.deter, self.variables, self._unimix = deter, (stoch, classes), unimix
        self.feature_size = deter + stoch * classes
        self.inputs = MLP([stoch * classes + action_size, hidden], "silu", norm_type="LN")
        self.cell = nn.Linear(hidden + deter, 3 * deter, bias=False)
        self.norm = nn.LayerNorm(3 * deter)
        self.prior_net = MLP([deter, hidden, stoch * classes], "silu", output=True, norm_type="LN")
        self.posterior_net = MLP([deter + embed_size, hidden, stoch * classes], "silu", output=True, norm_type="LN")

    def advance(self, state: State, action: Tensor) -> Tensor:
        """Return h `[X, H]` after an action `[X, A]` in a state."""
        x = self.inputs(torch.cat([state["stoch"], action], -1))
        reset, candidate, update = self.norm(self.cell(torch.cat([x, state["deter"]], -1))).chunk(3, -1)
        new = torch.tanh(torch.sigmoid(reset) * candidate)
        return torch.lerp(state["deter"], new, torch.sigmoid(update - 1.0))  # at first, it remembers

    def prior(self, deter: Tensor) -> Tensor:
        """Return log p(. | h) `[X, S, C]`."""
        return mix_uniform(self.prior_net(deter).unflatten(-1, self.variables), self._unimix)

    def posterior(self, deter: Tensor, embed: Tensor) -> Tensor:
        """Return log q(. | h, x) `[X, S, C]` for features `[X, E]` of observations."""
        logit = self.posterior_net(torch.cat([deter, embed], -1))
        return mix_uniform(logit.unflatten(-1, self.variables), self._unimix)

    def step(self, state: State, action: Tensor, embed: Tensor, noise: Tensor | None) -> tuple[State, Tensor]:
        """Return the state that follows an action, given what is observed in it, by the posterior; and log q."""
        deter = self.advance(state, action)
        logp = self.posterior(deter, embed)
        return {"deter": deter, "stoch": sample_classes(logp, noise)}, logp

    def imagine(self, state: State, action: Tensor, noise: Tensor | None) -> State:
        """Return the state that follows an action `[X, A]`, by the prior; `noise` `[X, S]` as for `choose`."""
        deter = self.advance(state, action)
        return {"deter": deter, "stoch": sample_classes(self.prior(deter), noise)}

    def zeros(self, like: Tensor, number: int) -> State:
        """Return the state before an episode, `number` times, with the type and device of a tensor."""
        sizes = {"deter": self.deter, "stoch": self.variables[0] * self.variables[1]}
        return {name: like.new_zeros(number, size) for name, size in sizes.items()}

    def observe(
        self, embed_TBE: Tensor, prev_action_TBA: Tensor, start_TB: Tensor, noise_TBS: Tensor | None, state: State
    ) -> tuple[State, Tensor]:
        """Run over sequences of observations.

        Args:
            embed_TBE: features of the observations.
            prev_action_TBA: the actions that led to them.
            start_TB: true where an episode starts; state and action before it become zero.
            noise_TBS: uniform numbers; None: the most likely classes are chosen.
            state: the state `[B, ...]` before the first row.

        Returns:
            The states `[T, B, ...]`, and log q `[T, B, S, C]`.
        """
        states, logps = [], []
        for t, embed_BE in enumerate(embed_TBE):
            begins_B1 = start_TB[t].unsqueeze(-1)
            state = {name: part.masked_fill(begins_B1, 0.0) for name, part in state.items()}
            action_BA = prev_action_TBA[t].masked_fill(begins_B1, 0.0)
            state, logp = self.step(state, action_BA, embed_BE, None if noise_TBS is None else noise_TBS[t])
            states.append(state)
            logps.append(logp)
        return {name: torch.stack([each[name] for each in states]) for name in state}, torch.stack(logps)


class ImageDecoder(nn.Module):
    """Predicts an image: a dense layer, then convolutions of 3 x 3 pixels, each after the pixels have been doubled.

    Args:
        size: number of input features.
        shape: C, H, W of the image.
        depth: channels of the last but one image; those before it have twice as many each.
    """

    def __init__(self, size: int, shape: list[int], depth: int) -> None:
        super().__init__()
        channels, *pixels = shape
        self._pixels = [pixels]
        while min(self._pixels[0]) > 6:
            self._pixels.insert(0, [(number + 1) // 2 for number in self._pixels[0]])
        steps = len(self._pixels) - 1
        widths = [*(depth * 2**step for step in reversed(range(steps))), channels]
        self._first = (widths[0], *self._pixels[0])
        self.dense = nn.Linear(size, widths[0] * self._pixels[0][0] * self._pixels[0][1])
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1) for before, after in itertools.pairwise(widths)
        )

    def forward(self, feature_XF: Tensor) -> Tensor:
        """Return images `[X, C, H, W]` of numbers around 0..1."""
        x = self.dense(feature_XF).unflatten(-1, self._first)
        for pixels, layer in zip(self._pixels[1:], self.convolutions, strict=True):
            x = layer(functional.interpolate(functional.silu(x), size=pixels))
        return x
