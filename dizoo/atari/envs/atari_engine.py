"""Plays Atari games with the C++ engine of ale-py, which contains the emulator, preprocessing and frame stack.

Shapes: N games.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ding_lite.utils.registry import ConfigError
from ding_lite.utils.seed import episode_seed

try:
    from ale_py import Action, ALEInterface, LoggerMode
    from ale_py import roms as roms
    from ale_py.vector_env import AtariVectorEnv
except ImportError as error:
    raise ConfigError(f"Atari games need the package ale-py ({error}): pip install 'ale-py>=0.12.1'.") from error


@cache
def read_rom(rom: str) -> tuple[list[Action], int]:
    """Return the actions that have an effect in a game, and the number of lives at its start."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.loadROM(roms.get_rom_path(rom))  # type: ignore[arg-type]  # find_rom has seen the file
    return ale.getMinimalActionSet(), ale.lives()


class AtariEngine(AtariVectorEnv):
    """ale-py's vector environment, which starts games as `ding_lite.envs.seeded_env.SeededEnv` starts episodes.

    With a new seed, ale-py loads the ROM again, which takes as long as 250 steps of play. Therefore only every
    `games_per_seed`-th game has its own seed. The games between are those that follow it, and do not depend on what was
    played before.

    Some games wait for FIRE before the first ball and after each lost life, and a player that has never learned to
    press it waits for ever. Therefore the first action of each life is FIRE, whatever the player chose, if the game
    counts lives and has this action. Pong counts none and serves by itself.

    Every step returns new arrays. Unlike those of the other managers, they are never overwritten.

    Args:
        game: name of the ROM.
        num_envs: N, games that are played at the same time.
        games_per_seed: games that follow one seed.
        serves: whether the first action of each life is FIRE.
        kwargs: further arguments of `AtariVectorEnv`.
    """

    counts_episodes = True

    def __init__(self, game: str, num_envs: int, *, games_per_seed: int, serves: bool, **kwargs: Any) -> None:
        super().__init__(game, num_envs, **kwargs)
        limit = kwargs["max_num_frames_per_episode"] // kwargs["frameskip"]
        self.metadata = {**self.metadata, "max_episode_steps": limit}
        self._games_per_seed = games_per_seed
        actions, _ = read_rom(game)
        self._fire = actions.index(Action.FIRE) if serves and Action.FIRE in actions else None
        self._lives_N = np.zeros(num_envs, np.int64)
        self._serves_N = np.zeros(num_envs, bool)  # whether the next action is the first of a life
        self._seed_N = np.full(num_envs, -1, np.int64)
        self._game_N = np.zeros(num_envs, np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start games, see `SeededEnv.reset`.

        Args:
            seed: one per game, `[N]`. None: the current seeds.
            options: `episode` `[N]`, numbers of the games to start; `reset_mask` `[N]`, which games to start, all
                by default.
        """
        options = options or {}
        mask_N = options.get("reset_mask", np.full(self.num_envs, True))
        seed_N = self._seed_N if seed is None else np.asarray(seed)
        game_N = options.get("episode", self._game_N + 1 if seed is None else np.zeros(self.num_envs, np.int64))
        return self._start(mask_N, seed_N, game_N)

    def _start(self, mask_N: np.ndarray, seed_N: np.ndarray, game_N: np.ndarray) -> tuple[Any, dict[str, Any]]:
        place_N = game_N % self._games_per_seed
        next_N = (self._seed_N == seed_N) & (self._game_N + 1 == game_N) & (place_N > 0)
        seeded_N = mask_N & ~next_N
        left_N = np.where(next_N, 1, place_N) * mask_N
        self._seed_N, self._game_N = np.where(mask_N, seed_N, self._seed_N), np.where(mask_N, game_N, self._game_N)
        result = None
        if seeded_N.any():
            pairs = zip(seed_N[seeded_N].tolist(), (game_N - place_N)[seeded_N].tolist(), strict=True)
            seeds = np.array([episode_seed(seed, game) for seed, game in pairs])
            result = super().reset(seed=seeds, options={"reset_mask": seeded_N})
        while (left_N > 0).any():
            result = super().reset(options={"reset_mask": left_N > 0})
            left_N = left_N - 1
        assert result is not None, "no game to start"
        self._lives_N = result[1]["lives"]
        self._serves_N = np.where(mask_N, self._lives_N > 0, self._serves_N)
        return result

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one env step in every game; start the next game where one ended, in the mode SAME_STEP."""
        if self._fire is not None:
            actions = np.where(self._serves_N, self._fire, actions)
        obs, reward_N, terminated_N, truncated_N, info = super().step(actions)
        ended_N, lives_N = terminated_N | truncated_N, info["lives"]
        self._serves_N = (lives_N < self._lives_N) | (ended_N & (lives_N > 0))
        self._lives_N = lives_N
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended_N.any():
            self._game_N[ended_N] += 1
            seeded_N = ended_N & (self._game_N % self._games_per_seed == 0)
            if seeded_N.any():
                obs, start = self._start(seeded_N, self._seed_N, self._game_N)
                info = {**info, **start}
        return obs, reward_N, terminated_N, truncated_N, info
