"""Atari games: their names, their config, and the environments that play them.

Preprocessing follows Machado et al. 2018 (arXiv:1709.06009): up to `noop_max` no-ops at the start of a game,
`frame_skip` emulator frames per env step, the pixel-wise maximum of the last two, grey images of 84 x 84 pixels, and
the newest `frame_stack` of them in an observation. Every manager uses the engine of `atari_engine` (`base` and
`subprocess` with one game each), so the same seed and actions give the same pixels with all of them.

Lives, rewards and returns are not changed here; `ding_lite.envs.EpisodeMonitor` handles them for training.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.vector import AutoresetMode

from ding_lite.envs.env_pool import ENDLESS, EnvPoolBuilder
from ding_lite.envs.spaces import EnvSpec
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest
from dizoo.atari.envs.atari_engine import AtariEngine, read_rom, roms

GAME_ID = re.compile(
    r"(?:ALE/)?(?P<v5>\w+)-v5|(?P<v4>\w+?)(?:NoFrameskip|Deterministic)?-v4|(?P<v0>\w+)NoFrameskip-v0|(?P<rom>\w+)"
)
STICKY = {"-v0": 0.25, "-v4": 0.0}  # ids that fix the probability of sticky actions, by their ending
DEFAULT_LIMIT = 108_000  # emulator frames, half an hour of play: the usual limit in the literature
SCREEN = 84  # pixels
ZOOM = 4  # pixels of a rendered image for each of the screen's
GAMES_PER_SEED = 32  # restoring a game takes a reset of 3 ms for every game since the last one with a seed
# games whose start depends on what was played before
REMEMBERING = ("hangman", "haunted_house", "ice_hockey", "sir_lancelot", "surround", "time_pilot", "yars_revenge")


def find_sticky(cfg_env: EasyDict) -> float:
    """Return the probability per emulator frame that the previous action is repeated: of the id, or else of the key.

    Raises:
        ConfigError: the key contradicts the id.
    """
    given = cfg_env.sticky_action_prob
    fixed = STICKY.get(str(cfg_env.env_id)[-3:], given)
    if given not in (0, fixed):
        raise ConfigError(
            f"env.sticky_action_prob is {given} with env.env_id '{cfg_env.env_id}': expected 0 for an id that ends "
            f"with '-v4', 0.25 with '-v0'; name the game '{find_rom(cfg_env.env_id)}' to choose it."
        )
    return fixed


def find_rom(env_id: str) -> str:
    """Return the name of a game's ROM.

    Args:
        env_id: for example 'ALE/MsPacman-v5', 'MsPacman-v5', 'MsPacmanNoFrameskip-v4' or 'ms_pacman', which all give
            'ms_pacman'.

    Raises:
        ConfigError: there is no such game, or its ROM file is missing or damaged.
    """
    names = {_title(rom): rom for rom in roms.get_all_rom_ids()}
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


def _title(rom: str) -> str:
    return rom.title().replace("_", "")


@ENV_REGISTRY.register("atari")
class AtariEnv(gymnasium.Env):
    """One Atari game, whose observations are `[max(1, frame_stack), 84, 84]`, uint8."""

    config: ClassVar = dict(
        env_id=Key("PongNoFrameskip-v4", "id 'PongNoFrameskip-v4' or 'ALE/Pong-v5', or the ROM's name, 'pong'"),
        frame_stack=Key(4, "newest frames in one observation; zeros before an episode's first frame", low=0, high=4096),
        clip_rewards=True,
        episodic_life=True,
        frame_skip=Key(4, "emulator frames per env step", low=1, high=1000),
        noop_max=Key(
            30, "largest number of no-ops at the start of a game; the number is drawn for each game", low=0, high=10**4
        ),
        sticky_action_prob=Key(
            0.0,
            "probability per emulator frame that the previous action is repeated; 0.25 for ids that end with '-v0'",
            low=0,
            high=1,
        ),
        fire_reset=Key(
            True, "the first action of each life is FIRE, as some games need, in games that have lives and this action"
        ),
        manager=dict(type="native"),  # ale-py's engine is the fastest
    )
    stacks_frames = True
    counts_episodes = True
    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # of 60 frames, 4 per step

    def __init__(self, cfg_env: EasyDict) -> None:
        # not SAME_STEP: a game must end with its own last observation, and `reset` must start exactly one new game
        self._engine = self.make_native(cfg_env, 1, 1, AutoresetMode.NEXT_STEP)
        limit = self._engine.metadata["max_episode_steps"]
        self.metadata = {**self.metadata, "max_episode_steps": limit}
        self.observation_space = self._engine.single_observation_space
        self.action_space = self._engine.single_action_space
        self._screen = np.zeros((SCREEN, SCREEN), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game, the one with the number `options["episode"]`."""
        super().reset(seed=seed)
        episode = {"episode": np.array([options["episode"]])} if options and "episode" in options else None
        obs_N, info = self._engine.reset(seed=seed if seed is None else [seed], options=episode)
        self._screen = obs_N[0, -1]
        return obs_N[0], {"lives": int(info["lives"][0])}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play `frame_skip` frames."""
        obs_N, reward_N, terminated_N, truncated_N, info = self._engine.step(np.array([action], np.int64))
        lives = {"lives": int(info["lives"][0])}
        self._screen = obs_N[0, -1]
        return obs_N[0], float(reward_N[0]), bool(terminated_N[0]), bool(truncated_N[0]), lives

    def render(self) -> np.ndarray:
        """Return the newest frame of the observation, grey and enlarged, `[4 * 84, 4 * 84, 3]`.

        The engine does not show the colours.
        """
        return np.kron(self._screen, np.ones((ZOOM, ZOOM), np.uint8))[..., None].repeat(3, -1)

    @classmethod
    def make_native(
        cls, cfg_env: EasyDict, num_envs: int, num_threads: int, autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP
    ) -> AtariEngine:
        """Build the engine. Its options that change lives or rewards are off.

        Args:
            cfg_env: the compiled `cfg.env`.
            num_envs: games that are played at the same time.
            num_threads: threads of the engine.
            autoreset_mode: when a game that ended is replaced by the next one.
        """
        rom, sticky, limit = find_rom(cfg_env.env_id), find_sticky(cfg_env), cfg_env.max_episode_steps
        return AtariEngine(
            rom,
            num_envs,
            games_per_seed=1 if sticky or rom in REMEMBERING else GAMES_PER_SEED,
            serves=cfg_env.fire_reset,
            num_threads=num_threads,
            max_num_frames_per_episode=DEFAULT_LIMIT if limit is None else min(limit * cfg_env.frame_skip, ENDLESS),
            repeat_action_probability=sticky,
            autoreset_mode=autoreset_mode,
            img_height=SCREEN,
            img_width=SCREEN,
            stack_num=max(1, cfg_env.frame_stack),
            frameskip=cfg_env.frame_skip,
            noop_max=cfg_env.noop_max,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,  # at the start of a game only
        )

    @classmethod
    def env_pool_task(cls, cfg_env: EasyDict) -> EnvPoolBuilder:
        """Return envpool's game with the same preprocessing, except that at least one no-op is drawn.

        Raises:
            ConfigError: see `check`.
        """
        rom, limit = find_rom(cfg_env.env_id), cfg_env.max_episode_steps
        limit = DEFAULT_LIMIT // cfg_env.frame_skip if limit is None else limit or ENDLESS
        options = dict(
            max_episode_steps=limit,
            stack_num=1,  # envpool fills a stack with copies of its first frame, not with zeros
            frame_skip=cfg_env.frame_skip,
            noop_max=max(1, cfg_env.noop_max),
            repeat_action_probability=find_sticky(cfg_env),
            use_fire_reset=cfg_env.fire_reset and read_rom(rom)[1] > 0,  # not after a lost life
            img_height=SCREEN,
            img_width=SCREEN,
        )
        return EnvPoolBuilder(f"{_title(rom)}-v5", options)

    @classmethod
    def check(cls, cfg_env: EasyDict) -> EnvSpec:
        """Return the spaces without playing.

        Raises:
            ConfigError: there is no such game, or the probability of sticky actions does not fit the id.
        """
        rom = find_rom(cfg_env.env_id)
        find_sticky(cfg_env)
        stack = cfg_env.frame_stack
        return EnvSpec(
            gymnasium.spaces.Box(0, 255, (max(1, stack), SCREEN, SCREEN), np.uint8),
            gymnasium.spaces.Discrete(len(read_rom(rom)[0])),
            stack if stack > 1 else 0,
        )
