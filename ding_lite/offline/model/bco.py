"""The networks of cloning from observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ActionShape, ObsShape, with_arguments_of
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.masks import obey_mask
from ding_lite.offline.model.bc import BC
from ding_lite.utils.registry import MODEL_REGISTRY
from ding_lite.utils.tree import tree_leaves


class InverseDynamics(nn.Module):
    """Predicts the action that has led from an observation to the next one.

    It sees the features of the observation, which are the numbers of a vector themselves, and by how much they change.
    The arguments are those of `BC`; `hidden_size_list` are the layers, and those of the encoder of images.
    """

    def __init__(
        self, obs_shape: ObsShape, action_shape: ActionShape, action_space: str, hidden_size_list: Sequence[int]
    ) -> None:
        super().__init__()
        has_images = any(isinstance(shape, Sequence) and len(shape) > 1 for shape in tree_leaves(obs_shape))
        sizes = hidden_size_list if has_images else ()
        self.encoder = create_encoder(obs_shape, sizes)
        self.head = BC(2 * feature_size(obs_shape, sizes), action_shape, action_space, hidden_size_list)

    def forward(self, obs: Any, next_obs: Any) -> dict[str, Any]:
        """Return a dict with `logit` or `action`, as `BC` does, for observations `[B, ...]`."""
        x_BF = self.encoder(obs)
        output: dict[str, Any] = self.head(torch.cat([x_BF, self.encoder(next_obs) - x_BF], dim=-1))
        return {"logit": obey_mask(output["logit"], obs)} if "logit" in output else output


@MODEL_REGISTRY.register("bco")
class BCO(nn.Module):
    """A policy that clones, and an inverse dynamics model that labels.

    Args:
        idm_hidden_size_list: layers of the inverse dynamics model.
        **options: of the policy, see `BC`.
    """

    @with_arguments_of(BC)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        *,
        idm_hidden_size_list: Sequence[int] = (128, 128),
        **options: Any,
    ) -> None:
        super().__init__()
        self.policy = BC(obs_shape, action_shape, action_space, **options)
        self.idm = InverseDynamics(obs_shape, action_shape, action_space, idm_hidden_size_list)

    def forward(self, obs: Tensor) -> dict[str, Any]:
        """Return what the policy does, see `BC`."""
        output: dict[str, Any] = self.policy(obs)
        return output
