"""envpool's Atari games with the settings of `AtariEnv`."""

from __future__ import annotations

from easydict import EasyDict

from ding_lite.envs.env_pool import EnvPoolBuilder


def make_task(cfg_env: EasyDict, game: str, size: int, limit: int, sticky: float, serves: bool) -> EnvPoolBuilder:
    """Return envpool's game. It draws the number of no-ops from at least one.

    Args:
        cfg_env: the compiled `cfg.env` of an `AtariEnv`.
        game: gymnasium's name, such as 'MsPacman'.
        size: height and width of an image, pixels.
        limit: env steps after which a game is truncated.
        sticky: probability per emulator frame that the previous action is repeated.
        serves: whether FIRE is pressed at the start of a game. envpool does not press it after a lost life.
    """
    options = dict(
        max_episode_steps=limit,
        stack_num=1,  # envpool fills a stack with copies of its first frame, not with zeros
        frame_skip=cfg_env.frame_skip,
        noop_max=max(1, cfg_env.noop_max),
        repeat_action_probability=sticky,
        use_fire_reset=serves,
        img_height=size,
        img_width=size,
    )
    return EnvPoolBuilder(f"{game}-v5", options)
