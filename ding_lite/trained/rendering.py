"""Builds environments that render, and records videos of their episodes.

moviepy, of the extra `video`, writes the videos.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.wrappers import HumanRendering

from ding_lite.envs.builders import Builder, build_single, find_builder
from ding_lite.envs.returned import EnvError
from ding_lite.envs.spaces import CHANNELS
from ding_lite.envs.wrappers import ENGINES, TRUE_REWARD
from ding_lite.utils.disk import explaining
from ding_lite.utils.key import ConfigDict
from ding_lite.utils.ranks.launch_environment import set_variables
from ding_lite.utils.registry import ConfigError, UserError, load_extra, place_of

logger = logging.getLogger(__name__)
FPS = 30  # frames per second, if the environment does not declare them
NUMBERED = re.compile(r"episode_(\d+)_return_")


def has_screen() -> bool:
    """Return whether windows can be opened, judging by environment variables."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    return not sys.platform.startswith("linux") or any(map(os.environ.get, variables))


def _drawing_offscreen() -> AbstractContextManager[None]:
    """Return a context manager that keeps pygame from looking for a screen, and complaining, if there is none."""
    return set_variables({} if has_screen() else {"SDL_VIDEODRIVER": "dummy"})


def build_rendered(
    cfg_env: EasyDict, builders: Sequence[Builder] | None = None, render_mode: str | None = None, index: int = 0
) -> gymnasium.Env:
    """Build one environment as a vector environment's are built, but with a render mode.

    Environments get the mode as `env.kwargs.render_mode`. If a registered class does not read that, but declares the
    mode in its `metadata`, its attribute `render_mode` is set. Engines are replaced by what the manager 'base' plays.
    """
    manager = "base" if cfg_env.manager.type in ENGINES else cfg_env.manager.type
    kwargs = dict(cfg_env.kwargs) | ({"render_mode": render_mode} if render_mode else {})
    cfg_env = ConfigDict(dict(cfg_env), kwargs=kwargs, manager={**cfg_env.manager, "type": manager})
    name = cfg_env.env_id or cfg_env.type
    try:
        env: gymnasium.Env = build_single(find_builder(cfg_env, builders), cfg_env, index)
    except UserError:  # its message already says what is wrong
        raise
    except Exception as error:  # the environment's code may raise anything
        mode = f" with render_mode '{render_mode}'" if render_mode else ""
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"Environment '{name}' cannot be built{mode}: {place_of(error)}{cause}") from error
    if render_mode is None:
        return env
    modes, follows = env.metadata.get("render_modes") or [], env.render_mode == render_mode
    shows_images = render_mode == "human" and render_mode not in modes and "rgb_array" in modes
    # A class that follows the argument may declare no modes, and gymnasium's wrappers turn images into lists.
    possible = follows and (not modes or render_mode.removesuffix("_list") in modes)
    if not (render_mode in modes or shows_images or possible):
        env.close()
        raise ConfigError(
            f"Environment '{name}' has no render mode '{render_mode}', only {list(modes)}: its class declares the "
            "modes in metadata['render_modes'], and its render() follows self.render_mode."
        )
    if follows:
        return env
    env.unwrapped.render_mode = "rgb_array" if shows_images else render_mode
    if not shows_images:
        return env
    env.unwrapped.metadata = {"render_fps": FPS, **env.unwrapped.metadata}  # HumanRendering requires render_fps
    return HumanRendering(env)


def check_recording(cfg_env: EasyDict, builders: Sequence[Builder] | None = None) -> None:
    """Check that the evaluator's first environment has the render mode of videos, and that moviepy is there."""
    if cfg_env.manager.type in ENGINES:
        raise ConfigError(
            f"env.replay_path: the engine of env_manager.type '{cfg_env.manager.type}' renders no images: set it to "
            "'base' or 'subprocess', or record afterwards with `ding_lite video`."
        )
    import_moviepy()
    build_rendered(cfg_env, builders, "rgb_array").close()


def render_image(env: gymnasium.Env) -> np.ndarray:
    """Return the image that an environment renders, uint8 `[H, W, 3]`.

    It may also have one channel, or transparency, which is left out, and other numbers from 0 to 255, or floats from 0
    to 1.
    """
    name = f"Environment '{type(env.unwrapped).__name__}'"
    try:
        image = env.render()
    except Exception as error:  # the environment's code may raise anything
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise EnvError(f"{name} cannot be rendered: {place_of(error)}{cause}") from error
    if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] not in CHANNELS or not image.size:
        kind = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else f"a {type(image).__name__}"
        raise EnvError(f"{name}: render returned {kind}, expected an array [height, width, 3], best of uint8.")
    image = image.repeat(3, 2) if image.shape[2] == 1 else image[..., :3]
    if image.dtype == np.uint8:
        return image
    least, most = (image.min(), image.max()) if image.dtype.kind in "uif" else (np.nan, np.nan)
    if not (least >= 0 and most <= 255):  # not true of NaN
        raise EnvError(f"{name}: render returned {image.dtype} from {least} to {most}, expected numbers from 0 to 255.")
    return (image * 255 if image.dtype.kind == "f" and most <= 1 else image).astype(np.uint8)


def import_moviepy() -> Any:
    """Import moviepy and return it; raise `ConfigError` if it is not installed, or finds no ffmpeg."""
    try:
        moviepy = load_extra("moviepy", "video", "A video")
        ffmpeg = load_extra("moviepy.config", "video", "A video").FFMPEG_BINARY
    except (OSError, RuntimeError) as error:
        cause = " ".join(str(error).split())
        raise ConfigError(f"Videos need ffmpeg, which moviepy does not find: {cause}") from error
    if shutil.which(ffmpeg) is None:  # moviepy believes what the user's environment variable says
        raise ConfigError(
            f"Videos need ffmpeg, but there is no program '{ffmpeg}': set IMAGEIO_FFMPEG_EXE to its path."
        )
    return moviepy


def build_recorded(cfg_env: EasyDict, builders: Sequence[Builder] | None, folder: str, index: int) -> gymnasium.Env:
    """Build an environment that records its episodes. If a video cannot be written later, this is reported once."""
    return EpisodeRecorder(build_rendered(cfg_env, builders, "rgb_array", index), folder, tolerant=True)


class EpisodeRecorder(gymnasium.Wrapper):
    """Records a video of each whole episode, `episode_0001_return_195.00.mp4`. Unfinished episodes are dropped.

    The return is the sum of unclipped rewards. Numbering continues after the videos already in the folder.

    Args:
        env: an environment whose render mode is 'rgb_array'.
        folder: the directory of the videos, which is created.
        ending: '.mp4' or '.gif'.
        tolerant: whether to continue without the video, and with one warning, if it cannot be made.

    Attributes:
        paths: the videos that were written.
    """

    def __init__(self, env: gymnasium.Env, folder: str, ending: str = ".mp4", tolerant: bool = False) -> None:
        super().__init__(env)
        import_moviepy()
        with explaining(f"Cannot write videos into '{folder}'"):
            os.makedirs(folder, exist_ok=True)
            names = os.listdir(folder)
        self.paths: list[str] = []
        self._folder, self._ending, self._tolerant, self._complained = folder, ending, tolerant, False
        self._frames: list[np.ndarray] = []  # frames of the running episode; empty if it is not recorded
        self._return = 0.0
        self._number = max((int(match[1]) for name in names if (match := NUMBERED.match(name))), default=0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._frames, self._return = [], 0.0
        with _drawing_offscreen():
            result = self.env.reset(seed=seed, options=options)
            with self._complaining():
                self._frames = [render_image(self.env)]
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        with _drawing_offscreen():
            obs, reward, terminated, truncated, info = self.env.step(action)
            self._return += float(info.get(TRUE_REWARD, reward))
            if self._frames:
                with self._complaining():
                    self._frames.append(render_image(self.env))
        if (terminated or truncated) and self._frames:
            name = f"episode_{self._number + 1:04d}_return_{self._return:.2f}{self._ending}"
            path = os.path.join(os.path.abspath(self._folder), name)
            with self._complaining():
                clip = import_moviepy().ImageSequenceClip(self._frames, fps=self.metadata.get("render_fps") or FPS)
                (clip.write_gif if self._ending == ".gif" else clip.write_videofile)(path, logger=None)
                self._number += 1
                self.paths.append(path)
            self._frames = []
        return obs, reward, terminated, truncated, info

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the environment's code and moviepy may raise anything
            self._frames = []
            if not self._tolerant:
                raise
            if not self._complained:
                cause = " ".join(str(error).split())[:300] or type(error).__name__
                logger.warning("Videos cannot be written to '%s'; the run continues. (%s)", self._folder, cause)
            self._complained = True
