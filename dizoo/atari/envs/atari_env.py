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

from ding_lite.envs.vector_env import EnvSpec
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest

GAME_ID = re.compile(r"(?:ALE/(?P<v5>\w+)-v5|(?P<v4>\w+?)(?:NoFrameskip|Deterministic)?-v4|(?P<rom>\w+))")
DEFAULT_LIMIT = 108_000  # emulator frames: half an hour of play, as everywhere in the literature
SCREEN = 84  # pixels


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
    """ale-py's vector environment, taking seeds as the other vector environments do: as a list.

    Each step's arrays are new memory: unlike those of the other managers they are never overwritten.
    """

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a new game in every environment."""
        return super().reset(seed=np.asarray(seed) if isinstance(seed, list) else seed, options=options)


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

    def __init__(self, cfg_env: EasyDict) -> None:
        # not SAME_STEP: an end must show its own last observation, and `reset` then starts exactly one new game
        self._engine = self.make_native(cfg_env, 1, 1, AutoresetMode.NEXT_STEP)
        self.observation_space = self._engine.single_observation_space
        self.action_space = self._engine.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game."""
        super().reset(seed=seed)
        obs_N, info = self._engine.reset(seed=seed if seed is None else [seed])
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
        limit = cfg_env.max_episode_steps
        return AtariEngine(
            find_rom(cfg_env.env_id),
            num_envs,
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
