"""Which keys of a compiled config differ from the defaults."""

from __future__ import annotations

from typing import Any

from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.config import schema as sc
from ding_lite.utils.key import SECTION, get_key

PARTS = ("env", "policy", "reward_model")
# Keys that decide which other keys exist, and what must agree with them.
CHOICES = ("policy.model.type", "policy.model.encoder.type", sc.BUFFER + ".type", "policy.priority")
SHAPES = ("policy.model.obs_shape", "policy.model.action_shape")  # those of the environment


def changed_keys(cfg: EasyDict) -> dict[str, tuple[Any, Any]]:
    """Return the default and the value of each key that differs from the default.

    Defaults are those of a config that names the same environment, policy, model, buffer and reward model, and nothing
    else. The default is `UNSET` where only the constructor of the model knows it.

    Args:
        cfg: the compiled config of `prepare_run`.
    """
    schema = sc.config_schema(cfg)
    create: dict[str, Any] = {
        part: {key: cfg[part][key] for key in ("type", "import_names")} for part in PARTS if part in cfg
    }
    create["env_manager"] = {"type": cfg.env.manager.type}
    chosen = {path: get_key(cfg, path) for path in CHOICES}
    overrides = [f"{path}={value}" for path, value in chosen.items() if value is not None]
    plain = compile_config(({"env": {"env_id": cfg.env.env_id}}, create), overrides=overrides)
    changed = {}
    for path, key in schema.items():
        declared = key.default if key.default in (sc.UNSET, sc.REQUIRED) else sc.plain(key.default, path)
        default = declared if path == "policy.priority" else get_key(plain, path, declared)
        value = get_key(cfg, path, default)
        if key.type is not SECTION and path not in SHAPES and value is not sc.UNSET and value != default:
            changed[path] = (default, value)
    return changed
