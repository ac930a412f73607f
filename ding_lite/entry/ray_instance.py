"""Starts Ray for the actors of a rank, or connects to the user's cluster, and leaves nothing behind."""

from __future__ import annotations

import functools
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ding_lite.utils.directory_lock import lock_directory, unlock_directory
from ding_lite.utils.ranks.heartbeat import restoring_signals
from ding_lite.utils.ranks.launch_environment import set_variables
from ding_lite.utils.registry import ConfigError, load_extra

ACTOR_BYTES = 300 * 2**20  # memory of an actor's process, most of which is torch
REACH_TIMEOUT = 10.0  # seconds until an address that does not answer counts as wrong
PREFIX = "ding_lite_ray_"  # begins the name of Ray's directory, which must be short because it holds sockets


def connect(actors: int, own: int, stack: ExitStack) -> Any:
    """Return the module `ray`, connected: to a running instance if there is one, else to a new one for this rank.

    Without RAY_ADDRESS, each rank starts an instance on its machine, which `stack` ends. `actors` is the number of all
    ranks, `own` that of this rank; `stack` disconnects.
    """
    stack.enter_context(set_variables(_variables()))
    ray = load_extra("ray", "ray", "policy.collect.actors")
    if ray.is_initialized():  # by the user's script
        _check_cpus(ray, actors)
        return ray
    ray._private.worker.listen_error_messages = lambda *args: None  # prints ten lines for an actor that dies
    logging.getLogger("ray").setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS")
    if address:
        check_reachable(address)
    else:
        _check_memory(own)
        own_instance = {"num_cpus": own, "num_gpus": 0, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        quiet |= own_instance | {"_temp_dir": stack.enter_context(_directory())}
    stack.callback(ray.shutdown)
    try:
        with restoring_signals():  # Ray replaces the handler of SIGTERM
            ray.init(address=address or "local", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"RAY_ADDRESS={address}" if address else "this machine"
        raise ConfigError(f"Ray cannot be used on {where}: {' '.join(str(error).split())[:200]}") from error
    if address:
        _check_cpus(ray, actors)
    return ray


@functools.cache
def _variables() -> dict[str, str]:
    """Return the environment variables of Ray, some of which it sets itself and leaves behind."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_CLIENT_MODE": "0"}
    if "RAY_ADDRESS" in os.environ:
        return quiet
    # Only processes with this token can use the instance. Ray would leave one in the user's home.
    return quiet | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}


def check_reachable(address: str) -> None:
    """Raise `ConfigError` if nothing listens at `host:port`. Ray would try for minutes, and then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):  # 'auto', for instance
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_TIMEOUT).close()
    except OSError as error:
        raise ConfigError(
            f"RAY_ADDRESS={address} cannot be reached: {error.strerror or error}. Start Ray there by 'ray start "
            "--head', or unset RAY_ADDRESS to let the actors play on this machine."
        ) from None


def _check_memory(actors: int) -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if actors * ACTOR_BYTES > total:
        raise ConfigError(
            f"policy.collect.actors: {actors} processes of a rank need {actors * ACTOR_BYTES / 2**30:.3g} GiB, but "
            f"this machine has {total / 2**30:.3g} GiB: set fewer, or RAY_ADDRESS to use a cluster."
        )


def _check_cpus(ray: Any, actors: int) -> None:
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < actors:
        raise ConfigError(
            f"policy.collect.actors={actors}, but the Ray cluster has {cpus} CPUs, and each actor needs one: set at "
            f"most {cpus}, or add machines."
        )


@contextmanager
def _directory() -> Iterator[str]:
    """Create a directory for Ray's session, and finally remove it; also remove those of runs that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is in use, gone, or another user's
            lock = lock_directory(old)
            shutil.rmtree(old, ignore_errors=True)
            unlock_directory(lock)
    path = tempfile.mkdtemp(prefix=PREFIX)
    lock = lock_directory(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        unlock_directory(lock)
