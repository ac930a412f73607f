"""Who can sign for a job, and that nothing which is not signed is believed: real strangers, of another user, attack."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed as dist

from ding_lite.utils.ranks.launch_environment import Launch
from ding_lite.utils.ranks.signing import Signer, ask_for_secret, given_secret, handing_out, is_handed_out
from ding_lite.utils.registry import UserError
from tests.distributed.launcher import finish, free_port, run_forked, start_forked
from tests.survival.common import wait_until

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.mark.parametrize(
    "forge",
    [
        lambda signer, message: (signer, message, "is/2"),  # another rank's place
        lambda signer, message: (signer.derive("next"), message, "is/1"),  # another meeting
        lambda signer, message: (Signer(b"guess"), message, "is/1"),  # another secret
        lambda signer, message: (signer, message.replace(b"7", b"8"), "is/1"),
        lambda signer, message: (signer, message[64:], "is/1"),  # no signature
        lambda signer, message: (signer, b"", "is/1"),
    ],
)
def test_a_message_counts_only_where_it_was_signed_for(
    forge: Callable[[Signer, bytes], tuple[Signer, bytes, str]],
) -> None:
    signer = Signer(b"secret").derive("meeting")
    message = signer.dump([7], "is/1").encode()
    assert Signer(b"secret").derive("meeting").load(message, "is/1") == [7]
    reader, forged, place = forge(signer, message)
    assert reader.load(forged, place) is None


def test_text_of_others_controls_no_terminal() -> None:
    signer = Signer(b"secret")
    message = signer.dump(["a\x1b[2J\nb", {"c": "\x07d é"}, 1], "cause").encode()
    assert signer.load(message, "cause") == ["a [2J b", {"c": " d é"}, 1]


def test_a_secret_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DING_LITE_SECRET", "hunter2")
    with pytest.raises(UserError, match="DING_LITE_SECRET: expected at least 16 characters, got 7"):
        given_secret()


# two ranks: their local world size, the address, the environment; whether rank 0 makes a secret and hands it out
JOBS = [
    (2, "127.0.0.1", {}, True),
    (1, "::1", {}, True),  # whatever a launcher says of machines
    (1, "node1", {"RANK": "0", "GROUP_WORLD_SIZE": "1"}, True),  # torchrun on one machine that has another address
    (2, "node1", {"RANK": "0", "LOCAL_WORLD_SIZE": "2"}, True),
    (2, "node1", {}, True),  # srun
    (2, "node1", {"RANK": "0"}, False),  # by hand: perhaps several machines
    (1, "node1", {"RANK": "0", "GROUP_WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}, False),
    (2, "127.0.0.1", {"DING_LITE_SECRET": "x" * 16}, False),
]


@pytest.mark.parametrize(("local", "addr", "variables", "expected"), JOBS)
def test_rank_0_of_one_machine_hands_out_a_secret_unless_there_is_one(
    local: int, addr: str, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "DING_LITE_SECRET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_handed_out(Launch(0, 2, 0, local, addr, 1234)) == expected


SHOW = "import os, sys; sys.stdout.write(os.environ['DING_LITE_SECRET'] + chr(10))"
LAUNCH = "import sys; from ding_lite.launch.launcher import run_ranks; sys.exit(run_ranks(sys.argv[1:], 2, 0))"


def test_our_launcher_gives_its_ranks_a_new_secret_or_that_of_the_user() -> None:
    words = ["-c", LAUNCH, sys.executable, "-c", SHOW]
    first, again = (run_forked(words).stdout.split() for _ in range(2))
    assert len({*first, *again}) == 2
    assert [len(secret) for secret in (*first, *again)] == [64] * 4
    assert run_forked(words, env={"DING_LITE_SECRET": "x" * 16}).stdout.split() == ["x" * 16] * 2


def ask_as(user: int, port: int) -> str:
    """Return what a process of a user gets if it asks for a secret."""
    begin, end = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(user)
        try:
            answer = ask_for_secret(port).hex()
        except OSError as error:
            answer = str(error)
        os.write(end, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(end)
    with os.fdopen(begin) as pipe:
        return pipe.read()


@as_root
def test_only_processes_of_the_same_user_get_or_give_a_secret() -> None:
    port = free_port()
    with handing_out(port) as secret:
        assert ask_as(0, port) == secret.hex()
        assert ask_as(NOBODY, port) == "a process of another user stands in its place"
        with pytest.raises(UserError, match=f"MASTER_PORT {port}: .* another process .* place"), handing_out(port):
            pass
    with pytest.raises(ConnectionRefusedError):
        ask_for_secret(port)


RANK = """
from ding_lite.utils import DDPContext, all_gather_object, get_rank
with DDPContext(timeout=60):
    print(all_gather_object(get_rank()))
"""
STRANGER = """
import encodings.idna, json, os, sys
from ding_lite.utils import DDPContext, all_gather_object
from ding_lite.utils.ranks import meeting
from ding_lite.utils.ranks.signing import Signer

class Bomb:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[1]}/made_by_$(id -u)",)

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
meeting.machine_id = lambda: "another machine"
meeting._read_invitation = lambda launch, message: (json.loads(message[64:]), Signer(b"guess"), "")
with DDPContext(timeout=60):
    all_gather_object(Bomb())
"""


@as_root
@pytest.mark.skipif(not hasattr(dist.TCPStore, "list_keys"), reason="needs torch 2.9")
def test_a_stranger_cannot_take_the_place_of_a_late_rank(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    first = start_forked(["-c", RANK], {**env, "RANK": "0"})
    stranger = start_forked(["-c", STRANGER, str(tmp_path)], {**env, "RANK": "1"})
    store = dist.TCPStore("127.0.0.1", int(env["MASTER_PORT"]), wait_for_workers=False)
    wait_until(lambda: any(key.endswith("is/1") for key in store.list_keys()), stranger)
    second = start_forked(["-c", RANK], {**env, "RANK": "1"})
    assert [finish(rank, 60).stdout for rank in (first, second)] == ["[0, 1]\n"] * 2
    os.kill(stranger.pid, 9)
    finish(stranger, 60)
    assert not list(tmp_path.iterdir())
