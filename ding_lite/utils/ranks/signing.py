"""How a message proves that a rank of this job sent it: it is signed with a secret that only those ranks know (HMAC).

Everybody who reaches the port of a job's store can write into it, on one machine every user of it. What a rank reads
there, or gets over a socket, is parsed, and unpickled, only if it is signed for the place where it stands.

The secret is in DING_LITE_SECRET: our launcher sets it, and for several machines the user may. Otherwise, the ranks of
one machine get it from rank 0, through a socket at which Linux tells each of them the user of the other.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ding_lite.utils.ranks.launch_environment import Launch, is_loopback
from ding_lite.utils.registry import UserError

SECRET = "DING_LITE_SECRET"
SHORTEST = 16  # characters of a secret
SIZE = 32  # bytes of a secret that is made here
SIGNATURE = 64  # bytes of a signature, in hexadecimal digits


class Signer:
    """Signs and verifies messages by a secret of the job's ranks; if it is empty, everybody can sign."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.turn = 0  # number of exchanges in which these signatures were used, the same on all ranks

    def derive(self, name: str) -> Signer:
        """Return the signer of a meeting: what it has signed is worth nothing in another one."""
        return Signer(hmac.digest(self._secret, name.encode(), "sha256"))

    def sign(self, data: bytes, place: str) -> bytes:
        """Return the message that contains the data; `place` says where it will stand, and who sends it."""
        return hmac.digest(self._secret, place.encode() + b"\0" + data, "sha256").hex().encode() + data

    def verify(self, message: bytes, place: str) -> bytes | None:
        """Return the data of a message; None if it was not signed for this place."""
        data = message[SIGNATURE:]
        return data if hmac.compare_digest(message, self.sign(data, place)) else None

    def dump(self, value: Any, place: str) -> str:
        """Return the message that contains a value as JSON."""
        return self.sign(json.dumps(value).encode(), place).decode()

    def load(self, message: bytes, place: str) -> Any:
        """Return the value of a message of `dump`, in which no text controls a terminal; None if it is not signed."""
        data = self.verify(message, place)
        return None if data is None else _printable(json.loads(data))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(char if char.isprintable() else " " for char in value)
    if isinstance(value, list):
        return [_printable(part) for part in value]
    return {key: _printable(part) for key, part in value.items()} if isinstance(value, dict) else value


def given_secret() -> bytes:
    """Return the secret in the environment; empty if there is none. Raises `UserError` if it is too short."""
    secret = os.environ.get(SECRET, "").encode()
    if 0 < len(secret) < SHORTEST:
        raise UserError(
            f"{SECRET}: expected at least {SHORTEST} characters, got {len(secret)}. Everybody who reaches the job can "
            "try short ones."
        )
    return secret


def is_handed_out(launch: Launch) -> bool:
    """Return whether a job needs a secret of rank 0: it is a job of one machine, and its environment contains none.

    Several machines without a secret have to trust their network. torch's launcher reads the number of machines from
    its command line, but WORLD_SIZE from a store. Without a launcher, LOCAL_WORLD_SIZE may be missing.
    """
    local = launch.local_world_size == launch.world_size and (
        "LOCAL_WORLD_SIZE" in os.environ or "RANK" not in os.environ
    )
    one_machine = is_loopback(launch.addr) or os.environ.get("GROUP_WORLD_SIZE") == "1" or local
    return one_machine and not given_secret()


@contextmanager
def handing_out(port: int) -> Iterator[bytes]:
    """Return a context manager that yields a new secret, and meanwhile gives it to processes of this user.

    `port` is that of the job's store, which two jobs of a machine do not share.
    """
    secret, server = secrets.token_bytes(SIZE), socket.socket(socket.AF_UNIX)
    try:
        server.bind(_place(port))
    except OSError as error:
        server.close()
        raise UserError(
            f"MASTER_PORT {port}: rank 0 cannot give the ranks the job's secret, because another process of this "
            f"machine stands in its place ({error.strerror}). Choose another port, or set {SECRET} for all ranks."
        ) from error
    server.listen(socket.SOMAXCONN)

    def serve() -> None:
        with suppress(OSError):  # the socket is shut down
            while True:
                with server.accept()[0] as other, suppress(OSError):
                    if _user(other) == os.geteuid():
                        other.sendall(secret)

    thread = threading.Thread(target=serve, name="secret", daemon=True)
    thread.start()
    try:
        yield secret
    finally:
        server.shutdown(socket.SHUT_RDWR)  # ends the thread's wait
        thread.join()
        server.close()


def ask_for_secret(port: int) -> bytes:
    """Return the secret that rank 0 hands out; raises an `OSError` if nobody does, or another user."""
    with socket.socket(socket.AF_UNIX) as rank_0:
        rank_0.settimeout(1)
        rank_0.connect(_place(port))
        if _user(rank_0) != os.geteuid():
            raise PermissionError("a process of another user stands in its place")
        secret = rank_0.recv(SIZE, socket.MSG_WAITALL)
    if len(secret) < SIZE:
        raise ConnectionError("it gives its secret to no process of this user")
    return secret


def _place(port: int) -> str:
    """Return the name of a Unix socket that is no file; only this machine, or this container, sees it."""
    return f"\0ding_lite/{port}"


def _user(other: socket.socket) -> int:
    """Return the user of the process at the other end of a Unix socket."""
    _, user, _ = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user
