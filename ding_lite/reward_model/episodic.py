"""The intrinsic reward of NGU, Never Give Up: what is new in this episode, more so if it was rare in all episodes.

Badia et al. 2020, arXiv:2002.06038, section 2 and algorithm 1. For the observation x to which a step has led,

    r' = r + beta r_ep min(max(alpha, 1), L),   alpha = 1 + (e(x) - mean(e)) / std(e)
    r_ep = 1 / s if s <= s_max, else 0,         s = sqrt(sum_k K(d_k)) + c
    K(d) = epsilon / (max(d / d_mean - xi, 0) + epsilon)

where e is the error of random network distillation, see `intrinsic.py`. d_k are the squared distances between f(x) and
its k nearest neighbours among the f of all earlier observations of the episode, and d_mean is their mean. All means and
std are over the last `running_steps` env steps of all ranks: errors fall, and with a mean over all steps alpha would
never exceed 1. f is the embedding of an inverse model,
which learns to say which action lies between two observations: it leaves out what no action influences.

The policy `ngu` plays as several policies, each with its beta; with any other policy, beta is the largest one.

Shapes: T steps, N environments, E environments of all actors of this rank, M places in memory, K neighbours, F
features, B samples, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.reward_model.intrinsic import RndRewardModel, count_actions
from ding_lite.rl_utils.exploration import family_weights
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import next_obs
from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map


class EpisodicMemory:
    """The newest `capacity` embeddings of each running episode."""

    def __init__(self, capacity: int, size: int, device: torch.device) -> None:
        self._entry_EMF = torch.zeros(0, capacity, size, device=device)
        self._count_E = torch.zeros(0, dtype=torch.int64, device=device)  # embeddings of the episode so far

    def distances(
        self, before_TNF: Tensor, after_TNF: Tensor, start_TN: Tensor, num_neighbors: int, first: int = 0
    ) -> Tensor:
        """Return the squared distances of embeddings to their nearest neighbours, and remember them.

        Args:
            before_TNF: the embeddings of the observations before each step.
            after_TNF: those after each step.
            start_TN: whether an episode starts with the step; its memory then contains the embedding before it.
            num_neighbors: K.
            first: number of the first environment among the E.

        Returns:
            `[T, N, K]`, infinite where there are fewer than K embeddings.
        """
        missing = max(first + start_TN.shape[1] - len(self._count_E), 0)
        self._entry_EMF, self._count_E = (
            torch.cat([part, part.new_zeros(missing, *part.shape[1:])]) for part in (self._entry_EMF, self._count_E)
        )
        rows = slice(first, first + start_TN.shape[1])
        entry_NMF, count_N = self._entry_EMF[rows], self._count_E[rows]
        distance_TNK = torch.full((*start_TN.shape, num_neighbors), torch.inf, device=entry_NMF.device)
        place_N, capacity = torch.arange(len(count_N), device=count_N.device), entry_NMF.shape[1]
        for before_NF, after_NF, start_N, distance_NK in zip(
            before_TNF, after_TNF, start_TN, distance_TNK, strict=True
        ):
            entry_NMF[start_N, 0] = before_NF[start_N]
            count_N.masked_fill_(start_N, 1)
            used = min(int(count_N.max()), capacity)
            distance_NM = (entry_NMF[:, :used] - after_NF[:, None]).square().sum(-1)
            empty_NM = torch.arange(used, device=count_N.device) >= count_N[:, None]
            nearest = distance_NM.masked_fill(empty_NM, torch.inf).topk(min(used, num_neighbors), largest=False)
            distance_NK[:, : nearest.values.shape[1]] = nearest.values
            entry_NMF[place_N, count_N % capacity] = after_NF
            count_N += 1
        return distance_TNK

    def state_dict(self) -> dict[str, Tensor]:
        return {"entry": self._entry_EMF.cpu(), "count": self._count_E.cpu()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._entry_EMF, self._count_E = (
            state[key].to(old.device, copy=True) for key, old in (("entry", self._entry_EMF), ("count", self._count_E))
        )


def episodic_reward(
    distance_XK: Tensor, mean: Tensor, epsilon: float, cluster_distance: float, c: float, max_similarity: float
) -> Tensor:
    """Return r_ep `[...]` of squared distances `[..., K]`, whose running mean is `mean`; see the module."""
    scaled_XK = (distance_XK / mean.clamp(min=1e-8) - cluster_distance).clamp(min=0.0)
    similarity_X = (epsilon / (scaled_XK + epsilon)).sum(-1).sqrt() + c
    return (1.0 / similarity_X).masked_fill(similarity_X > max_similarity, 0.0)


@REWARD_MODEL_REGISTRY.register("ngu")
class NguRewardModel(RndRewardModel):
    """The intrinsic reward of NGU. The memory of an episode ends with it, not with a lost life.

    Deviations from the paper: both networks learn from random steps of each collect, and not from the last five of each
    sequence of replay, because a reward is computed once, when it is collected. The memory keeps fewer embeddings.
    """

    key_groups: ClassVar[Groups] = ()
    config = dict(
        type="ngu",
        intrinsic_reward_weight=Key(0.3, "beta of the policy that explores most", low=0),
        final_reward_weight=Key(1.0, "the environment's reward of a terminal step is multiplied by it", low=0),
        max_reward_scaling=Key(5.0, "L: bound of the factor for what is rare in all episodes", low=1),
        num_neighbors=Key(10, "k", low=1),
        running_steps=Key(10000, "env steps of all ranks after which the running means forget a step", low=1),
        memory_size=Key(2000, "newest observations of an episode that are remembered; the paper: 30000", low=1),
        kernel_epsilon=Key(0.0001, "epsilon of the kernel K", above=0),
        cluster_distance=Key(0.008, "xi: scaled distances below it are 0", low=0),
        pseudo_counts_constant=Key(0.001, "c", above=0),
        max_similarity=Key(8.0, "s_max; above sqrt(k) + c it has no effect", above=0),
    )

    def _init_networks(self) -> None:
        super()._init_networks()
        size = self._cfg.hidden_size_list[-1]
        self._num_actions, width = count_actions(self._action_space, "ngu")
        inverse = nn.Sequential(nn.Linear(2 * size, 512), nn.ReLU(), nn.Linear(512, width))
        self._networks = nn.ModuleDict({"embedding": self._create_encoder(), "inverse": inverse}).to(self._device)
        self._inverse_optimizer = self._add_optimizer("inverse", self._networks)
        steps = self._cfg.running_steps
        self._error_stats = RunningMeanStd(window=steps).to(self._device)
        self._distance_stats = RunningMeanStd(window=steps * self._cfg.num_neighbors).to(self._device)
        self._memory = EpisodicMemory(self._cfg.memory_size, size, self._device)
        self._weight_N = family_weights(self._policy_cfg.get("num_policies", 1), 1.0).to(self._device)

    def connect(self, setup: Any, policy: Any, replay: Any) -> None:
        number, played = len(self._weight_N), policy.env_place[1]
        if 0 < played < number:
            raise ConfigError(
                f"policy.num_policies={number} needs as many environments, of all ranks together, got {played}: set "
                f"env.collector_env_num higher, or policy.num_policies={played}."
            )

    @property
    def _stats(self) -> RunningMeanStd:
        return self._error_stats

    @torch.no_grad()
    def _measure(self, block: Block, bonus_TN: Tensor) -> Figures:
        """Compute the intrinsic rewards `[T, N]` of a block, before the networks learn from it."""
        cfg, data, shape = self._cfg, self._data(block), block["reward"].shape
        self._error_stats.update(bonus_TN)
        before_TNF, after_TNF = (
            self._networks["embedding"](data[key]).unflatten(0, shape) for key in ("before", "after")
        )
        start_TN = (block["episode_step"] == 0).to(self._device)
        first = int(block.get("actor", 0)) * shape[1]
        distance_TNK = self._memory.distances(before_TNF, after_TNF, start_TN, cfg.num_neighbors, first)
        self._distance_stats.update(distance_TNK, counted=distance_TNK.isfinite())
        episodic_TN = episodic_reward(
            distance_TNK,
            self._distance_stats.mean.float(),
            epsilon=cfg.kernel_epsilon,
            cluster_distance=cfg.cluster_distance,
            c=cfg.pseudo_counts_constant,
            max_similarity=cfg.max_similarity,
        )
        scaling_TN = (1.0 + self._error_stats.normalize(bonus_TN)).clamp(1.0, cfg.max_reward_scaling)
        self._intrinsic_TN = episodic_TN * scaling_TN
        return {"intrinsic_reward": self._intrinsic_TN, "reward_scaling": scaling_TN}

    def _data(self, block: Block) -> dict[str, Any]:
        pairs = {"before": block["obs"], "after": next_obs(block), "action": block["action"]}
        return super()._data(block) | tree_map(lambda leaf: leaf.flatten(0, 1), self._to_device(pairs))

    def _learn(self, batch: Batch) -> dict[str, Tensor]:
        return super()._learn(batch) | self._inverse_optimizer.step(self._inverse_loss, batch)

    def _inverse_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        pair_BF = torch.cat([self._networks["embedding"](batch[key]) for key in ("before", "after")], -1)
        guess_BA, action = self._networks["inverse"](pair_BF), batch["action"]
        loss = (
            F.cross_entropy(guess_BA, action) if self._num_actions else F.mse_loss(guess_BA, action.flatten(1).float())
        )
        return loss, {}

    def relabel(self, block: Block) -> dict[str, Any]:
        reward_TN, weight = block["reward"], self._cfg.final_reward_weight
        return super().relabel({**block, "reward": torch.where(block["done"], weight * reward_TN, reward_TN)})

    def _intrinsic(self, block: Block) -> Tensor:
        member_TN = block.get("member")
        weight_TN = 1.0 if member_TN is None else self._weight_N[member_TN.to(self._device)]
        return weight_TN * self._intrinsic_TN

    def local_state_dict(self) -> dict[str, Any]:
        return super().local_state_dict() | {"memory": self._memory.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        super().load_local_state_dict(state)
        if (memory := state.get("memory")) and memory["entry"] is not None:
            self._memory.load_state_dict(memory)
