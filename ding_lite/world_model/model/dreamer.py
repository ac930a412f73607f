"""The networks of DreamerV3: a world model, an actor and a critic (Hafner et al. 2023, arXiv:2301.04104).

Shapes: T rows of a sequence, B sequences, K last observations of episodes inside them, M = T B + K states, N
environments, L imagined steps, F features of a state, A numbers of an action, S variables with C classes each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.masks import obey_mask, one_hot
from ding_lite.model.mlp import MLP
from ding_lite.rl_utils.distribution import Logit
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice
from ding_lite.utils.tree import MASK, dotted_items, tree_leaves, tree_map
from ding_lite.world_model.model.rssm import RSSM, ImageDecoder, State, feature_of, mix_uniform
from ding_lite.world_model.two_hot import NUM_BINS, symlog

SIGMA_RANGE = (0.1, 1.0)  # of continuous actions, in the authors' code


def squash(obs: Any, dtype: torch.dtype) -> Any:
    """Return observations `[X, ...]` whose vectors are symlog of themselves; images stay as they are."""
    return tree_map(lambda leaf: leaf if leaf.ndim == 4 else symlog(leaf.to(dtype)), obs)


def parts_of(obs: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return what the decoder predicts of observations, by dotted names: images of bytes in 0..1, symlog of vectors."""
    squashed = squash(obs, dtype)
    parts = dict(dotted_items(squashed)) if isinstance(obs, Mapping) else {"": squashed}
    return {name: part / 255.0 if part.dtype == torch.uint8 else part for name, part in parts.items()}


class Decoder(nn.Module):
    """Predicts each part of an observation, see `parts_of`: vectors by dense layers, images by convolutions."""

    def __init__(self, obs_shape: ObsShape, size: int, hidden: Sequence[int], depth: int) -> None:
        super().__init__()
        shapes = dict(dotted_items(obs_shape)) if isinstance(obs_shape, Mapping) else {"": obs_shape}
        self.names, networks = list(shapes), list[nn.Module]()
        for shape in shapes.values():
            sizes = [shape] if isinstance(shape, int) else list(shape)
            networks.append(head(size, hidden, sizes[0]) if len(sizes) == 1 else ImageDecoder(size, sizes, depth))
        self.networks = nn.ModuleList(networks)

    def forward(self, feature_XF: Tensor) -> dict[str, Tensor]:
        return {name: network(feature_XF) for name, network in zip(self.names, self.networks, strict=True)}

    def mask(self, feature_XF: Tensor) -> dict[str, Tensor]:
        """Return the predicted `action_mask` `[X, A]`; an empty dict if observations have none."""
        if MASK not in self.names:
            return {}
        return {MASK: self.networks[self.names.index(MASK)](feature_XF) > 0.5 * symlog(torch.tensor(1.0))}


def head(size: int, hidden: Sequence[int], output: int, zero: bool = False) -> MLP:
    """Return dense layers with a linear output; with `zero`, the output is 0 at first."""
    network = MLP([size, *hidden, output], "silu", output=True, norm_type="LN")
    if zero:
        for parameter in network[-1].parameters():
            nn.init.zeros_(parameter)
    return network


class WorldModel(nn.Module):
    """Encoder, RSSM, and the heads, which predict observations, rewards and whether the episode continues."""

    def __init__(self, encoder: nn.Module, rssm: RSSM, decoder: Decoder, hidden: Sequence[int]) -> None:
        super().__init__()
        self.encoder, self.rssm, self.decoder = encoder, rssm, decoder
        self.reward = head(rssm.feature_size, hidden, NUM_BINS, zero=True)
        self.continues = head(rssm.feature_size, hidden, 1)

    def forward(
        self,
        obs: Any,
        prev_action: Tensor,
        episode_start: Tensor,
        noise: Mapping[str, Tensor],
        prev_state: State | None = None,
        final: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the states of sequences of observations, and predictions from them.

        Args:
            obs: the observations `[T, B, ...]`.
            prev_action: `[T, B, A]`, the actions that led to them.
            episode_start: `[T, B]`.
            noise: `state` `[T, B, S]`, uniform numbers, see `choose`, and `final` for the states after the same rows;
                empty: the most likely classes.
            prev_state: the state `[B, ...]` before the first row; None: zeros.
            final: of K observations that ended an episode, `obs` `[K, ...]`, `index` `[K]`, the places t B + b of the
                rows that they follow, and `action` `[T, B, A]`, the actions taken in all rows. None: only states are
                returned.

        Returns:
            `state` `[T, B, ...]`. With `final`, of all M states, first those of the rows, also `posterior` and `prior`,
            log-probabilities `[M, S, C]`, `obs`, see `Decoder`, `reward` `[M, bins]`, and `continues` `[M]`, a logit.
        """

        def before_ends(column_TB: Tensor) -> Tensor:
            assert final is not None
            return column_TB.flatten(0, 1)[final["index"]]

        rows = episode_start.shape
        flat = tree_map(lambda leaf: leaf.flatten(0, 1), obs)
        if final is not None:
            flat = tree_map(lambda leaf, last: torch.cat([leaf, last]), flat, final["obs"])
        embed = self.encoder(squash(flat, prev_action.dtype)).to(prev_action.dtype)
        with torch.autocast(embed.device.type, enabled=False):
            embed_TBE, embed_KE = embed[: rows.numel()].unflatten(0, rows), embed[rows.numel() :]
            begin = self.rssm.zeros(embed, rows[1]) if prev_state is None else prev_state
            state, posterior = self.rssm.observe(embed_TBE, prev_action, episode_start, noise.get("state"), begin)
            if final is None:
                return {"state": state}
            every, posterior = {name: part.flatten(0, 1) for name, part in state.items()}, posterior.flatten(0, 1)
            action_KA, noise_KS = before_ends(final["action"]), before_ends(noise["final"])
            last, posterior_K = self.rssm.step(tree_map(before_ends, state), action_KA, embed_KE, noise_KS)
            every = {name: torch.cat([part, last[name]]) for name, part in every.items()}
            prior = self.rssm.prior(every["deter"])
        feature = feature_of(every)
        return {
            "state": state,
            "posterior": torch.cat([posterior, posterior_K]),
            "prior": prior,
            "obs": self.decoder(feature),
            "reward": self.reward(feature),
            "continues": self.continues(feature).squeeze(-1),
        }


class Actor(nn.Module):
    """Returns the distribution of actions for features of states: a logit `[X, A]`, or `mu` and `sigma` `[X, A]`."""

    def __init__(self, size: int, hidden: Sequence[int], action_size: int, discrete: bool, unimix: float) -> None:
        super().__init__()
        self._discrete, self._unimix = discrete, unimix
        self.net = head(size, hidden, action_size if discrete else 2 * action_size)

    def forward(self, feature_XF: Tensor) -> Logit:
        output = self.net(feature_XF)
        if self._discrete:
            return mix_uniform(output, self._unimix)
        mu, sigma = output.chunk(2, -1)
        least, largest = SIGMA_RANGE
        return {"mu": mu.tanh(), "sigma": least + (largest - least) * torch.sigmoid(sigma + 2.0)}


@MODEL_REGISTRY.register("dreamer")
class Dreamer(nn.Module):
    """World model, actor and critic, whose layers have the activation SiLU and layer normalisation.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of discrete actions, or of dimensions of a continuous one.
        action_space: 'discrete' or 'continuous'.
        encoder_hidden_size_list: sizes of the encoder's layers; for images, three convolutions' channels and a dense
            layer's size.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
        dyn_deter: features of the deterministic part of a state.
        dyn_hidden: size of the RSSM's hidden layers.
        dyn_stoch: categorical variables of a state.
        dyn_discrete: classes of each.
        unimix_ratio: share of a uniform distribution in those of states and of discrete actions.
        units: size of the hidden layers of decoders, heads, actor and critic.
        layer_num: number of these layers.
        cnn_depth: channels of a decoded image's last hidden layer.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = (64, 128, 128),
        encoder: EncoderChoice = None,
        dyn_deter: int = 512,
        dyn_hidden: int = 512,
        dyn_stoch: int = 32,
        dyn_discrete: int = 32,
        unimix_ratio: float = 0.01,
        units: int = 512,
        layer_num: int = 2,
        cnn_depth: int = 32,
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ("discrete", "continuous"))
        self.discrete, self.action_size = action_space == "discrete", single_size(action_shape)
        layers, hidden = list(encoder_hidden_size_list), [units] * layer_num
        embed = create_encoder(obs_shape, layers, "silu", encoder=encoder, norm_type="LN")
        sizes = (dyn_deter, dyn_hidden, dyn_stoch, dyn_discrete)
        rssm = RSSM(feature_size(obs_shape, layers), self.action_size, *sizes, unimix=unimix_ratio)
        self.world = WorldModel(embed, rssm, Decoder(obs_shape, rssm.feature_size, hidden, cnn_depth), hidden)
        self.actor = Actor(rssm.feature_size, hidden, self.action_size, self.discrete, unimix_ratio)
        self.critic = head(rssm.feature_size, hidden, NUM_BINS, zero=True)

    def encode(self, action: Tensor, dtype: torch.dtype) -> Tensor:
        """Return actions as the world model takes them, `[..., A]`: one-hot, or between -1 and 1."""
        return one_hot(action, self.action_size).to(dtype) if self.discrete else action.clamp(-1.0, 1.0).to(dtype)

    def forward(self, obs: Any, noise: Mapping[str, Tensor], prev_state: State | None = None) -> dict[str, Any]:
        """Return `logit` `[1, N, ...]` for observations `[1, N, ...]`, and `next_state` `[N, ...]` without the action.

        `prev_state` also has `action` `[N, A]`, the action taken in it. None: an episode begins.
        """
        weight, number = next(self.parameters()), next(tree_leaves(obs)).shape[1]
        before = dict(prev_state or self.world.rssm.zeros(weight, number))
        action_NA = before.pop("action", weight.new_zeros(number, self.action_size))
        start_1N = torch.zeros(1, number, dtype=torch.bool, device=weight.device)
        rows = {"prev_action": action_NA[None], "episode_start": start_1N, "prev_state": before}
        state = self.world(obs, noise=noise, **rows)["state"]
        logit = obey_mask(self.actor(feature_of(state)), obs)
        return {"logit": logit, "next_state": {name: part[0] for name, part in state.items()}}

    def imagine(self, state: State, noise: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Act in the world model for L steps from M states.

        Args:
            state: the states `[M, ...]`.
            noise: `state` `[L, M, S]`, uniform numbers, and `action` `[L, M, A]`, of Gumbel's distribution for discrete
                actions, else standard normal numbers.

        Returns:
            `feature` `[L + 1, M, F]` of the states s_0, ..., s_L, and `action` `[L, M, ...]`, a_0, ..., a_{L-1}. If
            observations have an `action_mask`, also that, `[L, M, A]`, as the world model predicts it.
        """
        features, actions, masks = [feature_of(state)], list[Tensor](), list[dict[str, Tensor]]()
        with torch.autocast(features[0].device.type, enabled=False):
            for state_MS, action_MA in zip(noise["state"], noise["action"], strict=True):
                masks.append(self.world.decoder.mask(features[-1]))
                logit: Any = obey_mask(self.actor(features[-1]), masks[-1])
                if self.discrete:
                    actions.append((logit + action_MA).argmax(-1))
                else:
                    actions.append(torch.addcmul(logit["mu"], logit["sigma"], action_MA))
                state = self.world.rssm.imagine(state, self.encode(actions[-1], action_MA.dtype), state_MS)
                features.append(feature_of(state))
        output = {"feature": torch.stack(features), "action": torch.stack(actions)}
        return output | tree_map(lambda *columns: torch.stack(columns), *masks)
