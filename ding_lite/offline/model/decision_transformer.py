"""A transformer that predicts actions from returns-to-go, observations and actions: Decision Transformer.

Every step is three tokens, in this order: the return-to-go, the observation, the action. Each token attends to itself
and to those before it; what the observation's token becomes predicts the step's action. The layers are those of GPT-2.

Shapes: B sequences, K steps, T = 3 K tokens, H features of a token, L layers, A actions or dimensions of an action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.masks import obey_mask
from ding_lite.model.mlp import MLP
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map


class TransformerBlock(nn.Module):
    """Attention and two dense layers, each after a normalisation, whose results are added to their inputs."""

    def __init__(self, size: int, head_num: int) -> None:
        super().__init__()
        self._split = (head_num, size // head_num)
        self.norm_attention, self.norm_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query_key_value, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x_BTH: Tensor, allowed_BTT: Tensor, kept_B2TH: Tensor | None) -> Tensor:
        """Return `[B, T, H]`, for tokens that attend to others, by row and column, where it is allowed.

        `kept_B2TH` are the factors of dropout of both results; None: no dropout.
        """
        first, second = (1.0, 1.0) if kept_B2TH is None else kept_B2TH.unbind(1)
        parts = self.query_key_value(self.norm_attention(x_BTH)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, self._split).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed_BTT[:, None])
        x_BTH = x_BTH + self.output(attended.transpose(1, 2).flatten(2)) * first
        return x_BTH + self.mlp(self.norm_mlp(x_BTH)) * second


@MODEL_REGISTRY.register("dt")
class DecisionTransformer(nn.Module):
    """Decision Transformer.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image.
        action_shape: A.
        action_space: 'discrete' or 'continuous'; continuous actions are between -1 and 1.
        n_blocks: L.
        h_dim: H, a multiple of `n_heads`.
        n_heads: attention heads of a layer.
        drop_p: share of the results of layers that dropout sets to zero.
        max_timestep: number of steps of an episode that have an embedding of their own; later ones share the last.
        encoder_hidden_size_list: sizes of the layers of the encoder of observations, whose features are mapped linearly
            to a token; None: vectors are mapped directly.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: Literal["discrete", "continuous"],
        n_blocks: int = 3,
        h_dim: int = 128,
        n_heads: int = 1,
        drop_p: float = 0.1,
        max_timestep: int = 4096,
        encoder_hidden_size_list: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ("discrete", "continuous"))
        if h_dim % n_heads:
            raise ConfigError(f"policy.model.h_dim={h_dim}: expected a multiple of n_heads={n_heads}.")
        size, layers = single_size(action_shape), encoder_hidden_size_list or ()
        self.discrete, self.n_blocks, self.h_dim, self.drop_p = action_space == "discrete", n_blocks, h_dim, drop_p
        self.encoder = create_encoder(obs_shape, layers)
        self.embed_obs, self.embed_rtg = nn.Linear(feature_size(obs_shape, layers), h_dim), nn.Linear(1, h_dim)
        self.embed_action: nn.Module = nn.Embedding(size, h_dim) if self.discrete else nn.Linear(size, h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.norm_in, self.norm_out = nn.LayerNorm(h_dim), nn.LayerNorm(h_dim)
        self.blocks = nn.ModuleList(TransformerBlock(h_dim, n_heads) for _ in range(n_blocks))
        self.head = MLP([h_dim, size], output=True)

    def forward(
        self, obs: Any, action: Tensor, rtg: Tensor, timestep: Tensor, valid: Tensor, noise: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Predict the action of each step, as `logit` `[B, K, A]`, or `action` `[B, K, A]` if continuous.

        Args:
            obs: observations `[B, K, ...]`.
            action: actions `[B, K]`, or `[B, K, A]`; a prediction depends neither on its step's own nor on later ones.
            rtg: returns-to-go `[B, K]`.
            timestep: number of each step in its episode, from 0, `[B, K]`.
            valid: whether a step is one of the episode, `[B, K]`. Others may hold anything, and predict nothing.
            noise: uniform numbers `[B, L, 2, T, H]` for dropout; None: no dropout.
        """
        shape = valid.shape
        features = self.encoder(tree_map(lambda leaf: leaf.flatten(0, 1), obs)).unflatten(0, shape)
        tokens = (self.embed_rtg(rtg.unsqueeze(-1)), self.embed_obs(features), self.embed_action(action))
        when_BKH = self.embed_timestep(timestep.clamp(max=self.embed_timestep.num_embeddings - 1))
        x_BTH = self.norm_in(torch.stack([token + when_BKH for token in tokens], 2).flatten(1, 2))
        place_T = torch.arange(3 * shape[1], device=valid.device)
        known_BT = valid.repeat_interleave(3, dim=1)
        # Every token attends at least to itself: the softmax over no token would be NaN.
        itself_TT = place_T == place_T[:, None]
        allowed_BTT = (place_T <= place_T[:, None]) & known_BT[:, None] | itself_TT
        kept = None if noise is None else (noise >= self.drop_p).to(x_BTH.dtype) / (1.0 - self.drop_p)
        for number, block in enumerate(self.blocks):
            x_BTH = block(x_BTH, allowed_BTT, None if kept is None else kept[:, number])
        output = self.head(self.norm_out(x_BTH[:, 1::3]))
        return {"logit": obey_mask(output, obs)} if self.discrete else {"action": output.tanh()}
