"""Tools that every other package may use: registries, keys, trees, seeds, logging, process group, checkpoint files.

Names are imported on first use, so that environment worker processes, which need only the registry, never load torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "registry": (
        "BUFFER_REGISTRY",
        "ENCODER_REGISTRY",
        "ENV_REGISTRY",
        "MODEL_REGISTRY",
        "POLICY_REGISTRY",
        "REWARD_MODEL_REGISTRY",
        "TRACKER_REGISTRY",
        "ConfigError",
        "Registry",
        "UserError",
        "closest",
    ),
    "ranks.collectives": (
        "all_gather_object",
        "allreduce_data",
        "broadcast_module",
        "broadcast_object_list",
    ),
    "ranks.flat_parameters": ("FlatParameters",),
    "ranks.ddp_config": ("to_ddp_config",),
    "checkpoint.file": ("CheckpointError", "load_checkpoint", "save_checkpoint"),
    "checkpoint.store": ("CheckpointStore",),
    "checkpoint.run_directory": ("open_exp_dir",),
    "ranks.heartbeat": ("heartbeat",),
    "ranks.interrupt": ("InterruptGuard",),
    "ranks.context": ("DDPContext",),
    "ranks.ranks": ("get_local_rank", "get_rank", "get_world_size"),
    "logger": ("ExperimentLogger",),
    "progress": ("Progress",),
    "tree": ("tree_map",),
    "seed": ("random_state", "set_random_state", "set_seed"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
