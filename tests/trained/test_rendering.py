"""Environments get a render mode, and whole episodes of the evaluator's first environment become videos."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ding_lite.envs import check_env, create_vector_env
from ding_lite.trained import rendering
from ding_lite.trained.rendering import EpisodeRecorder, build_rendered, render_image
from ding_lite.utils.registry import ConfigError
from tests.envs.test_vector_env import env_config
from tests.toys import Toy

LENGTHS = (3, 5)  # env steps of episodes, in turns


class Lamp(Toy):
    """Renders images, if its attribute says so; the reward is 2; a key of `info` looks like one of ours."""

    metadata = {"render_modes": ["rgb_array"]}
    episode = -1

    def begin(self) -> None:
        self.episode += 1

    def play(self, action: Any) -> Any:
        return 2.0, self.count == LENGTHS[self.episode % 2], False, {"true_reward": 0.5}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((32, 32, 3), 40 * self.count, np.uint8)


class Dark(Lamp):
    metadata = {"render_modes": []}


def test_a_registered_class_that_declares_a_mode_gets_it_as_its_attribute() -> None:
    env = build_rendered(env_config(), [Lamp], "rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (32, 32, 3)  # type: ignore[union-attr]
    assert build_rendered(env_config(), [Lamp]).render_mode is None
    with pytest.raises(ConfigError, match=r"no render mode 'rgb_array', only \[\]"):
        build_rendered(env_config(), [Dark], "rgb_array")
    with pytest.raises(ConfigError, match=r"no render mode 'ansi', only \['rgb_array'\]"):
        build_rendered(env_config(), [Lamp], "ansi")


def record(folder: str, steps: int, ending: str = ".mp4") -> EpisodeRecorder:
    env = EpisodeRecorder(build_rendered(env_config(), [Lamp], "rgb_array"), folder, ending)
    env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, _, _ = env.step(0)
        if terminated:
            env.reset()
    env.close()
    return env


def test_each_whole_episode_is_a_video_named_by_its_true_return(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = record(str(tmp_path / "new" / "videos"), steps=3 + 5 + 2)
    names = ["episode_0001_return_6.00.mp4", "episode_0002_return_10.00.mp4"]
    assert [Path(path).name for path in env.paths] == names
    assert sorted(path.name for path in (tmp_path / "new" / "videos").iterdir()) == names
    again = record(str(tmp_path / "new" / "videos"), steps=3, ending=".gif")
    assert [Path(path).name for path in again.paths] == ["episode_0003_return_6.00.gif"]


@pytest.mark.parametrize("manager", ["base", "subprocess"])
@pytest.mark.parametrize("kind", ["gymnasium", "cartpole"])
def test_the_first_environment_records_and_nothing_else_changes(kind: str, manager: str, tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    importlib.import_module("dizoo.classic_control.cartpole.envs.cartpole_env")  # registers it, but not in workers
    cfg = env_config(type=kind, env_id="CartPole-v1", manager={"type": manager}, max_episode_steps=6)
    seen: list[list[Any]] = []
    for folder in (None, str(tmp_path / "videos")):
        env = create_vector_env(cfg, 2, 7, training=False, replay_path=folder)
        rows: list[Any] = [env.reset()[0].copy()]
        for t in range(14):
            obs, reward, terminated, truncated, info = env.step(np.array([t % 2, 1]))
            rows += [obs.copy(), reward, terminated, truncated, info["episode_return"]]
        env.close()
        seen.append(rows)
    for one, two in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == [
        "episode_0001_return_6.00.mp4",
        "episode_0002_return_6.00.mp4",
    ]


class Flickering(Lamp):
    """Renders what `image` is, in its first episode and from frame 4 of the others on."""

    image: Any = None

    def render(self) -> Any:
        if self.episode > 0 and self.count < 4:
            return super().render()
        if isinstance(self.image, str):
            raise ArithmeticError("the bulb\nis burnt")
        return self.image


@pytest.mark.parametrize(
    "image",
    [
        np.full((8, 8, 3), 51, np.uint8),
        np.dstack([np.full((8, 8, 3), 51), np.full((8, 8), 7)]).astype(np.uint8),  # RGBA
        np.full((8, 8, 3), 51.4),
        np.full((8, 8, 3), 0.2, np.float32),  # of 1: 0.2 * 255 = 51
        np.full((8, 8, 1), 51),
    ],
)
def test_images_of_other_channels_and_numbers_are_recorded(image: np.ndarray) -> None:
    env = Flickering(image=image)
    env.episode, env.count = 1, 5
    found = render_image(env)
    assert found.dtype == np.uint8
    assert found.shape == (8, 8, 3)
    assert (found == 51).all()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (None, "render returned a NoneType, expected an array"),
        (
            np.zeros((8, 8), np.uint8),
            "render returned uint8 [8, 8], expected an array [height, width, 3], best of uint8",
        ),
        (np.full((8, 8, 3), 256.0), "render returned float64 from 256.0 to 256.0, expected numbers from 0 to 255"),
        (np.full((8, 8, 3), -1), "render returned int64 from -1 to -1, expected numbers from 0 to 255"),
        (np.full((8, 8, 3), np.nan), "render returned float64 from nan to nan, expected numbers from 0 to 255"),
        ("raise", "ArithmeticError: the bulb is burnt"),
    ],
)
def test_a_wrong_image_is_one_line_and_costs_one_video(
    image: Any, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("moviepy")
    monkeypatch.setattr(Flickering, "image", image)
    cfg = env_config(replay_path=str(tmp_path))
    check_env(cfg, [Flickering])
    env = create_vector_env(cfg, 1, 7, training=False, builders=[Flickering], replay_path=str(tmp_path))
    env.reset()
    ended = [bool(env.step(np.array([0]))[2][0]) for _ in range(3 + 5 + 3)]
    env.close()
    assert [t for t, end in enumerate(ended) if end] == [2, 7, 10]
    assert [path.name for path in tmp_path.iterdir()] == ["episode_0001_return_6.00.mp4"]  # the third: of 3 steps
    (told,) = caplog.messages
    assert "the run continues" in told
    assert message in told


def test_what_cannot_record_is_refused_before_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    folder = str(tmp_path / "videos")
    with pytest.raises(
        ConfigError, match=r"env\.replay_path: the engine of env_manager\.type 'env_pool' renders no images"
    ):
        check_env(env_config(env_id="CartPole-v1", replay_path=folder, manager={"type": "env_pool"}))
    with pytest.raises(ConfigError, match="no render mode"):
        check_env(env_config(replay_path=folder), [Dark])
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Cannot write videos into"):
        record(str(tmp_path / "file"), 1)

    with monkeypatch.context() as patch:
        patch.setattr("moviepy.config.FFMPEG_BINARY", "/no/ffmpeg")
        with pytest.raises(ConfigError, match=r"there is no program '/no/ffmpeg': set IMAGEIO_FFMPEG_EXE"):
            rendering.import_moviepy()
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(ConfigError, match=r"the extra 'video' .*pip install 'ding_lite\[video\]'"):
        check_env(env_config(env_id="CartPole-v1", replay_path=folder))
    assert not Path(folder).exists()


@pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
def test_a_mode_that_gymnasium_only_warns_of_is_refused() -> None:
    cfg = env_config(env_id="CartPole-v1")
    with pytest.raises(ConfigError, match=r"'CartPole-v1' has no render mode 'ansi', only \['human', 'rgb_array'\]"):
        build_rendered(cfg, None, "ansi")
    env = build_rendered(cfg, None, "rgb_array_list")  # which gymnasium collects from rgb_array
    env.reset(seed=0)
    assert len(env.render()) == 1  # type: ignore[arg-type]
    env.close()


def test_a_video_that_cannot_be_written_is_reported_once_and_the_episodes_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("moviepy")
    cfg, folder = env_config(env_id="CartPole-v1", max_episode_steps=3), tmp_path / "videos"
    env = create_vector_env(cfg, 1, 7, training=False, replay_path=str(folder))
    env.reset()
    folder.rmdir()
    ended = [bool(env.step(np.array([0]))[3][0]) for _ in range(6)]
    env.close()
    assert ended == [False, False, True] * 2
    (told,) = caplog.messages
    assert told.startswith(f"Videos cannot be written to '{folder}'; the run continues.")
