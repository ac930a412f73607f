"""A game whose environment fails at a known step."""

from __future__ import annotations

import os
from typing import Any

from tests.worker.games import CountingGame


class DyingGame(CountingGame):
    """The game, whose process dies in its third step of the episode with seed `dies_in`."""

    def __init__(self, length: int, dies_in: int) -> None:
        super().__init__(length)
        self._dies_in = dies_in

    def play(self, action: Any) -> Any:
        if (self.seed, self.count) == (self._dies_in, 3):
            os._exit(1)
        return super().play(action)
