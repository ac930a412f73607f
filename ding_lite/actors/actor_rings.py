"""The storage of replay for actors, whose rollout blocks arrive at different paces.

Shapes: A actors, R rows and N environments of each of them, B places, T rows of a rollout block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ding_lite.torch_utils.data import Block
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.ring import Ring


class ActorRings(Ring):
    """One ring for each actor, all in one memory.

    The places of an actor follow those of the actor before it: `(a R + row) N + n`. A sampler sees one ring of N
    environments. The rows at which a sample can start, of one actor after another, are counted from 0 by `starts`, so
    every sample of every actor is equally likely to be drawn. The key `actor` of a rollout block says whose it is.

    `num_rows` R and `num_envs` N are those of each of A actors; the other arguments are those of `Ring`.
    """

    def __init__(self, num_actors: int, num_rows: int, num_envs: int, *args: Any, **options: Any) -> None:
        super().__init__(num_actors * num_rows, num_envs, *args, **options)
        self.num_rows, self._part_places = num_rows, num_rows * num_envs
        self._parts = [_ActorRing(self, first) for first in range(0, self.num_places, self._part_places)]
        self._starts: list[range] = []
        self._ends_A = np.empty(0, np.int64)

    @property
    def parts(self) -> Sequence[Ring]:
        """The rings of the actors."""
        return self._parts

    @property
    def places_in_use(self) -> int:
        return max((part.first + part.size * part.num_envs for part in self._parts if part.size), default=0)

    def part(self, block: Block) -> Ring:
        """Return the ring of the actor that played a rollout block."""
        return self._parts[int(block["actor"])]

    def allocate(self, rows: dict[str, Any]) -> None:
        """Create `columns`, of which each actor's ring has a part."""
        super().allocate(rows)
        for part in self._parts:
            part.columns = tree_map(part.own, self.columns)

    def starts(self, span: int) -> range:
        """Return the rows at which a sample of `span` rows can start, see `ActorRings`; `places` finds them."""
        self._starts = [part.starts(span) for part in self._parts]
        self._ends_A = np.cumsum([len(starts) for starts in self._starts])
        return range(int(self._ends_A[-1]))

    def places(self, row_B: np.ndarray, env_B: np.ndarray) -> np.ndarray:
        """Return the places of rows, counted as `starts` last did, and environments."""
        actor_B = np.searchsorted(self._ends_A, row_B, side="right")
        oldest_A = [starts.stop - end for starts, end in zip(self._starts, self._ends_A, strict=True)]
        shift_A = [old + part.cursor - part.size for old, part in zip(oldest_A, self._parts, strict=True)]
        own_B = (row_B + np.array(shift_A)[actor_B]) % self.num_rows
        return (actor_B * self.num_rows + own_B) * self.num_envs + env_B

    def later(self, place_B: Tensor, number: Any) -> Tensor:
        """Return the places `number` rows after these, in the same environments."""
        own_B = place_B % self._part_places
        return place_B - own_B + (own_B + number * self.num_envs) % self._part_places


class _ActorRing(Ring):
    """The ring of one actor, in the memory of all.

    Its places are counted from its own first row, except those of `places`, which a sampler gets.

    Attributes:
        first: its first place in the memory of all.
    """

    def __init__(self, whole: ActorRings, first: int) -> None:
        super().__init__(whole.num_rows, whole.num_envs, whole.stack, whole.device, whole.keeps_last)
        self.first, self._whole = first, whole
        self.episode_step, self.slot = self.own(whole.episode_step), self.own(whole.slot)
        self.finals = whole.finals

    def own(self, column: Tensor) -> Tensor:
        """Return the part of this actor of a column of all, which shares its memory."""
        return column[self.first : self.first + self.num_places]

    @property
    def places_in_use(self) -> int:
        return self._whole.places_in_use

    def allocate(self, rows: dict[str, Any]) -> None:
        self._whole.allocate(rows)

    def push(self, block: Block) -> None:
        """Store a rollout block, see `Ring.push`.

        If the block does not continue the rows before it, because the actor was replaced, its key `cut` has the
        environments `env` `[K]` of which this is true, and the observations `obs` `[K, ...]` that followed those rows.
        """
        if "cut" in block:
            self.truncate(block["cut"]["env"], block["cut"]["obs"])
        super().push({key: value for key, value in block.items() if key not in ("actor", "cut")})

    def places(self, row_B: np.ndarray, env_B: np.ndarray) -> np.ndarray:
        return self.first + super().places(row_B, env_B)
