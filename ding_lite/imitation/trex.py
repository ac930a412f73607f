"""Rewards from ranked demonstrations, T-REX (Brown et al. 2019, arXiv:1904.06387), or from a person's preferences.

Trajectories are known to be better or worse than each other, by their returns or by preferences in a file. A network R
of observations learns, before the run's first iteration, that the better one of two has the larger sum of rewards, by
the Bradley-Terry model over snippets of both:

    loss = -mean log (exp S_j / (exp S_i + exp S_j)),   S = sum over the snippet of R(s),   j better than i

Then R is fixed, and every step of the policy gets sigmoid(R(s)), or R(s) divided by its deviation over the data. So a
policy may become better than every demonstration. The environment's rewards are not used.

Shapes: E trajectories, P pairs, L steps of the longest snippet, B pairs of a batch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.imitation.expert import EXPERT_KEYS, read_expert, record_checkpoints
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.policy import Policy
from ding_lite.reward_model.base import RewardModel, shape_of
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer


@REWARD_MODEL_REGISTRY.register("trex")
class TrexRewardModel(RewardModel):
    """T-REX, see the module. `connect` reads the trajectories, and the first collect is preceded by all updates."""

    config = dict(
        type="trex",
        **EXPERT_KEYS,
        preferences_path=Key(
            "", "JSON lines [i, j]: trajectory j of the data, counted from 0, is better than i; empty: by returns"
        ),
        learning_rate=1e-4,
        weight_decay=1e-3,
        hidden_size_list=Key([512, 64], "layers of the network", low=1),
        num_snippets=Key(6000, "pairs of snippets", low=1),
        min_snippet_length=Key(30, "shortest snippet, in steps; shorter trajectories are taken whole", low=1),
        max_snippet_length=Key(100, "longest snippet, in steps", low=1),
        batch_size=Key(64, "pairs per rank and update", low=1),
        train_epoch=Key(2, "passes over the pairs", low=1),
        l1_weight=Key(0.0, "weight of mean |R| in the loss", low=0),
        reward_transform=Key(
            "sigmoid",
            "'sigmoid': rewards between 0 and 1, which favour long episodes; 'scale': R over its deviation",
            choices=("sigmoid", "scale"),
        ),
    )

    def _init_networks(self) -> None:
        shape, hidden = shape_of(self._observation_space), self._cfg.hidden_size_list
        head = nn.Linear(feature_size(shape, hidden), 1)
        self._network = nn.Sequential(create_encoder(shape, hidden), head).to(self._device)
        self._normalizer = Normalizer(self._observation_space, None).to(self._device)
        self._optimizer = self._add_optimizer("reward", self._network)
        self._scale, self._is_trained = 1.0, False

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        """Read the trajectories."""
        dataset = read_expert(setup, ("obs", "reward", "done"), self._recorded)
        self._normalizer.fit(dataset.observations())
        parts = [self._normalizer.normalize_obs(self._to_device(part)) for part in dataset.observations()]
        self._obs_R = tree_map(lambda *leaves: torch.cat(leaves), *parts)
        self._length_E, return_E = dataset.trajectories()
        self._pairs_P2 = self._read_pairs(return_E)

    def _recorded(self, path: str, episodes: int) -> str:
        """Return the path of a data set with the trajectories of what `reward_model.data_path` names."""
        return record_checkpoints(path, episodes)

    def _read_pairs(self, return_E: Tensor) -> Tensor:
        """Return pairs of trajectories `[P, 2]`, whose second one is better."""
        path = self._cfg.preferences_path
        if path:
            return read_preferences(path, len(return_E))
        pairs_P2 = (return_E[:, None] < return_E).nonzero()
        if not len(pairs_P2):
            raise ConfigError(
                f"reward_model.data_path '{self._cfg.data_path}': all {len(return_E)} trajectories have the same "
                "return, so that none is better: add others, or give preferences_path."
            )
        return pairs_P2

    def train(self, block: Block) -> dict[str, Tensor]:
        if self._is_trained:
            return {}
        cfg = self._cfg
        generator = torch.Generator().manual_seed(get_rank())
        for _ in range(cfg.train_epoch * -(-cfg.num_snippets // (cfg.batch_size * get_world_size()))):
            heartbeat("learn")
            figures = self._optimizer.step(self._loss, self._draw(generator))
        with torch.no_grad():
            self._scale = max(float(self._network(self._obs_R).std()), 1e-6)
        self._is_trained = True
        return {key: figures[key] for key in ("reward_loss", "accuracy")}

    def _draw(self, generator: torch.Generator) -> Batch:
        """Return pairs of snippets: `row` `[2, B, L]` of the data, the better ones second, and their `length` `[B]`."""
        cfg = self._cfg

        def up_to(high_B: Tensor) -> Tensor:
            """Return integers from 0 to high, drawn uniformly."""
            share_B = torch.rand(len(high_B), generator=generator, dtype=torch.float64)
            return (share_B * (high_B + 1)).long()

        chosen_B = torch.randint(len(self._pairs_P2), (cfg.batch_size,), generator=generator)
        pair_2B = self._pairs_P2[chosen_B].T
        wanted_B = cfg.min_snippet_length + up_to(
            torch.full((cfg.batch_size,), cfg.max_snippet_length - cfg.min_snippet_length)
        )
        length_B = wanted_B.minimum(self._length_E[pair_2B].amin(0))
        last_2B = self._length_E[pair_2B] - length_B  # the last step at which a snippet may start
        worse_B = up_to(last_2B[0])
        low_B = worse_B.minimum(last_2B[1])
        start_2B = torch.stack([worse_B, low_B + up_to(last_2B[1] - low_B)])
        first_E = self._length_E.cumsum(0) - self._length_E
        row_2BL = (first_E[pair_2B] + start_2B).unsqueeze(-1) + torch.arange(int(length_B.max()))
        return self._to_device({"row": row_2BL.clamp(max=int(self._length_E.sum()) - 1), "length": length_B})

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        row_2BL, length_B = batch["row"], batch["length"]
        obs = tree_map(lambda leaf: leaf[row_2BL.flatten()], self._obs_R)
        reward_2BL = self._network(obs).view(row_2BL.shape)
        inside_BL = torch.arange(row_2BL.shape[-1], device=row_2BL.device) < length_B.unsqueeze(1)
        sum_2B = (reward_2BL * inside_BL).sum(-1)
        loss = F.softplus(sum_2B[0] - sum_2B[1]).mean()  # -log (exp S_j / (exp S_i + exp S_j))
        penalty = (reward_2BL.abs() * inside_BL).sum() / (2 * inside_BL.sum())
        return loss + self._cfg.l1_weight * penalty, {"accuracy": (sum_2B[1] > sum_2B[0]).float().mean()}

    def relabel(self, block: Block) -> dict[str, Any]:
        flat = tree_map(lambda leaf: leaf.flatten(0, 1), self._to_device(block["obs"]))
        reward_M = self._network(self._normalizer.normalize_obs(flat)).squeeze(-1)
        scaled_M = reward_M.sigmoid() if self._cfg.reward_transform == "sigmoid" else reward_M / self._scale
        return {**block, "reward": scaled_M.view(block["reward"].shape).to(block["reward"].device)}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"scale": self._scale, "is_trained": self._is_trained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._scale, self._is_trained = state["scale"], state["is_trained"]


def read_preferences(path: str, number: int) -> Tensor:
    """Return pairs of trajectories `[P, 2]` from a file of JSON lines [i, j]; the data have `number` of them.

    Raises:
        ConfigError: the file cannot be read, is empty, or a line is no pair of different trajectories.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"reward_model.preferences_path '{path}' cannot be read: {error.strerror}.") from None
    pairs = list[list[int]]()
    for place, line in enumerate(lines, 1):
        try:
            worse, better = json.loads(line)
        except (ValueError, TypeError):
            worse = better = -1
        if {worse, better} - {*range(number)} or worse == better:
            raise ConfigError(
                f"'{path}', line {place}: expected [i, j], two different trajectories from 0 to {number - 1} of which "
                f"the second one is better, got '{line[:60]}'."
            )
        pairs.append([worse, better])
    if not pairs:
        raise ConfigError(f"reward_model.preferences_path '{path}' has no line [i, j].")
    return torch.tensor(pairs)
