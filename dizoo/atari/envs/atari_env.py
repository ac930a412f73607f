"""Atari games by ale-py's own C++ engine: emulator, preprocessing and frame stack in one place.

Preprocessing as in Machado et al. (2018): up to `noop_max` no-ops at the start, `frame_skip` frames per step with
the pixel-wise maximum of the last two, grey, 84 x 84, the newest `frame_stack` frames. Every manager uses this engine
(`base` and `subprocess` with one game each), so that all of them see the same pixels for the same seed and actions.

Lives, rewards and true returns are left alone here; `ding_lite.envs.EpisodeMonitor` handles them for training.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from easydict import EasyDict
from gymnasium.vector import AutoresetMode

from ding_lite.envs.seeded_env import episode_seed
from ding_lite.envs.vector_env import EnvSpec
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest

GAME_ID = re.compile(r"(?:ALE/(?P<v5>\w+)-v5|(?P<v4>\w+?)(?:NoFrameskip|Deterministic)?-v4|(?P<rom>\w+))")
DEFAULT_LIMIT = 108_000  # emulator frames: half an hour of play, as everywhere in the literature
SCREEN = 84  # pixels
GAMES_PER_SEED = 32  # to come back to a game takes a reset, 3 ms, for each one since the seed
# games whose start depends on what was played before it
REMEMBERING = ("hangman", "haunted_house", "ice_hockey", "sir_lancelot", "surround", "time_pilot", "yars_revenge")


def find_rom(env_id: str) -> str:
    """Return the ROM's name, 'ms_pacman', for 'ALE/MsPacman-v5', 'MsPacmanNoFrameskip-v4' or 'ms_pacman'.

    Raises:
        ConfigError: no such game, or its ROM file is missing or damaged.
    """
    names = {rom.title().replace("_", ""): rom for rom in roms.get_all_rom_ids()}
    match = GAME_ID.fullmatch(str(env_id))
    name = match[match.lastgroup] if match and match.lastgroup else str(env_id)
    rom = names.get(name, name)
    if rom not in names.values():
        raise ConfigError(
            f"env.env_id '{env_id}': there is no Atari ROM '{rom}'.{closest(name, [*names, *names.values()])}"
        )
    try:
        roms.get_rom_path(rom)
    except OSError as error:
        raise ConfigError(f"env.env_id '{env_id}': the ROM '{rom}' cannot be read: {error}") from error
    return rom


class AtariEngine(AtariVectorEnv):
    """ale-py's vector environment, which starts games as `ding_lite.envs.seeded_env.SeededEnv` starts episodes.

    A seed makes ale-py load the ROM again, which takes as long as 250 steps of play. So only every `games_per_seed`-th
    game has a seed of its own; those between are the ones that follow it, whatever was played in it.

    Each step's arrays are new memory: unlike those of the other managers they are never overwritten.
    """

    counts_episodes = True

    def __init__(self, game: str, num_envs: int, *, games_per_seed: int, **kwargs: Any) -> None:
        super().__init__(game, num_envs, **kwargs)
        self._games_per_seed = games_per_seed
        self._seed_N = np.full(num_envs, -1, np.int64)
        self._game_N = np.zeros(num_envs, np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start games, see `SeededEnv.reset`.

        Args:
            seed: one per game. None: those that they have.
            options: `episode` `[N]`; `reset_mask` `[N]`, by default all.
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
        assert result is not None, "no game was to be started"
        return result

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every game."""
        obs, reward_N, terminated_N, truncated_N, info = super().step(actions)
        ended_N = terminated_N | truncated_N
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended_N.any():
            self._game_N[ended_N] += 1
            seeded_N = ended_N & (self._game_N % self._games_per_seed == 0)
            if seeded_N.any():
                obs, start = self._start(seeded_N, self._seed_N, self._game_N)
                info = {**info, **start}
        return obs, reward_N, terminated_N, truncated_N, info


@ENV_REGISTRY.register("atari")
class AtariEnv(gymnasium.Env):
    """One Atari game; observations `[max(1, frame_stack), 84, 84]` uint8."""

    config: ClassVar = dict(
        env_id="PongNoFrameskip-v4",  # (str) 'PongNoFrameskip-v4', 'ALE/Pong-v5' or the ROM's name, 'pong'
        frame_stack=4,  # (int) newest frames in one observation, zeros before an episode's first
        clip_rewards=True,  # (bool) train on the sign of the reward; recorded returns stay true
        episodic_life=True,  # (bool) training only: a lost life is `done` for the learner, and the game goes on
        frame_skip=4,  # (int) emulator frames per env step
        noop_max=30,  # (int) most no-ops at a game's start; their number is drawn for each game
        sticky_action_prob=0.0,  # (float) chance per frame that the emulator repeats the previous action
        fire_reset=False,  # (bool) press FIRE when a game starts
        manager=dict(type="native"),  # (dict) ale-py's engine is the fastest
    )
    stacks_frames = True
    counts_episodes = True

    def __init__(self, cfg_env: EasyDict) -> None:
        # not SAME_STEP: an end must show its own last observation, and `reset` then starts exactly one new game
        self._engine = self.make_native(cfg_env, 1, 1, AutoresetMode.NEXT_STEP)
        self.observation_space = self._engine.single_observation_space
        self.action_space = self._engine.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game, that of `options["episode"]`."""
        super().reset(seed=seed)
        episode = {"episode": np.array([options["episode"]])} if options and "episode" in options else None
        obs_N, info = self._engine.reset(seed=seed if seed is None else [seed], options=episode)
        return obs_N[0], {"lives": int(info["lives"][0])}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play `frame_skip` frames."""
        obs_N, reward_N, terminated_N, truncated_N, info = self._engine.step(np.array([action], np.int64))
        lives = {"lives": int(info["lives"][0])}
        return obs_N[0], float(reward_N[0]), bool(terminated_N[0]), bool(truncated_N[0]), lives

    @classmethod
    def make_native(
        cls, cfg_env: EasyDict, num_envs: int, num_threads: int, autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP
    ) -> AtariEngine:
        """Build the engine; its arguments that would change lives or rewards are switched off."""
        rom, limit = find_rom(cfg_env.env_id), cfg_env.max_episode_steps
        return AtariEngine(
            rom,
            num_envs,
            games_per_seed=1 if cfg_env.sticky_action_prob or rom in REMEMBERING else GAMES_PER_SEED,
            num_threads=num_threads,
            max_num_frames_per_episode=limit * cfg_env.frame_skip if limit else DEFAULT_LIMIT,
            repeat_action_probability=cfg_env.sticky_action_prob,
            autoreset_mode=autoreset_mode,
            img_height=SCREEN,
            img_width=SCREEN,
            stack_num=max(1, cfg_env.frame_stack),
            frameskip=cfg_env.frame_skip,
            noop_max=cfg_env.noop_max,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=cfg_env.fire_reset,
        )

    @classmethod
    def check(cls, cfg_env: EasyDict) -> EnvSpec:
        """Return the spaces, from the ROM alone."""
        rom, sticky = find_rom(cfg_env.env_id), cfg_env.sticky_action_prob
        if not 0 <= sticky <= 1 or (sticky and cfg_env.env_id.endswith("-v4")):
            raise ConfigError(
                f"env.sticky_action_prob is {sticky} with env.env_id '{cfg_env.env_id}': expected a probability, and 0 "
                f"for a '-v4' id; name the game '{rom}' to play with sticky actions."
            )
        ALEInterface.setLoggerMode(LoggerMode.Error)
        ale = ALEInterface()
        ale.loadROM(roms.get_rom_path(rom))  # type: ignore[arg-type]  # find_rom has seen the file
        stack = cfg_env.frame_stack
        return EnvSpec(
            gymnasium.spaces.Box(0, 255, (max(1, stack), SCREEN, SCREEN), np.uint8),
            gymnasium.spaces.Discrete(len(ale.getMinimalActionSet())),
            stack if stack > 1 else 0,
        )
