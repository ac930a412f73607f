"""The lock of a run's directory, and its records, which are read line by line while a run writes them."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from ding_lite.cli.running import find_begun, read_resumable
from ding_lite.results.cleaning import find_checkpoints
from ding_lite.results.run import read_run
from ding_lite.utils import CheckpointError, ConfigError, open_exp_dir, save_checkpoint
from ding_lite.utils.checkpoint.run_directory import release_exp_dir
from ding_lite.utils.directory_lock import RecordReader, is_active, lock_directory, unlock_directory
from tests.distributed.launcher import finish, run_forked, start_forked
from tests.results.helpers import write_run
from tests.run.helpers import CONFIG, SHORT, last_checkpoint, result
from tests.survival.common import wait_until


def test_one_holds_the_lock_and_others_see_it(tmp_path: Path) -> None:
    assert not is_active(tmp_path)
    directory = lock_directory(tmp_path)
    assert is_active(tmp_path)
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BlockingIOError):
        lock_directory(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == open_files
    unlock_directory(directory)
    assert not is_active(tmp_path)


def test_a_left_over_process_that_holds_the_lock_is_named(tmp_path: Path) -> None:
    directory, (reading, writing) = lock_directory(tmp_path), os.pipe()
    orphan = os.fork()
    if not orphan:
        os.read(reading, 1)
        os._exit(0)
    os.close(directory)  # the orphan has inherited it
    assert is_active(tmp_path)
    with pytest.raises(ConfigError, match=rf"its run is still active \(process {orphan} of this machine\)"):
        open_exp_dir(str(tmp_path), resume=True)
    os.write(writing, b"x")
    os.waitpid(orphan, 0)
    assert not is_active(tmp_path)
    os.close(reading)
    os.close(writing)


def test_whoever_looks_does_not_seem_active_to_another(tmp_path: Path) -> None:
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not is_active(tmp_path)
    os.close(looking)


def test_without_locks_every_directory_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("ding_lite.utils.directory_lock.fcntl.flock", no_locks)
    directory = lock_directory(tmp_path)
    assert not is_active(tmp_path)
    unlock_directory(directory)


WITHOUT_LOCKS = """
import errno, fcntl, sys
def flock(descriptor, operation):
    raise OSError(errno.ENOSYS, "Function not implemented")
fcntl.flock = flock
from ding_lite.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_without_locks_a_run_ends_when_another_one_goes_on_in_its_directory(tmp_path: Path) -> None:
    # the second run must have read a checkpoint before the first one removes it
    often = ["policy.learn.learner.hook.save_ckpt_after_iter=20", "env.stop_value=None"]
    often += ["policy.learn.learner.hook.keep_ckpt=0", "policy.learn.learner.hook.save_replay_buffer=False"]
    command = ["-c", WITHOUT_LOCKS, "train", "-c", str(CONFIG), *SHORT, *often, "max_env_step=10000000"]
    first = start_forked(command, cwd=tmp_path)
    wait_until(lambda: any(tmp_path.glob("run/ckpt/iteration_*.pth.tar")), first)
    run_forked(["-c", WITHOUT_LOCKS, "resume", "run", "max_env_step=6000"], 120, cwd=tmp_path)
    ended = finish(first, 60)
    assert ended.returncode == 2
    assert ended.stderr.count("Another run continues in 'run', whose file system has no locks: this one ends") == 1
    assert result(tmp_path / "run")["stop_reason"] == "max_env_step"
    assert last_checkpoint(tmp_path / "run")["collector"]["envstep"] == result(tmp_path / "run")["envstep"]


OTHER = 65534  # a user that is neither root nor the one that runs the tests


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_run_follows_its_users_links_and_not_those_of_others(tmp_path: Path) -> None:
    run, elsewhere = write_run(tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    for number in (1, 2):
        (elsewhere / f"iteration_{number}.pth.tar").touch()
    (run / "ckpt").symlink_to(elsewhere)
    path, part = str(run), str(run / "ckpt/iteration_3.pth.tar")

    assert find_begun(path) == path
    open_exp_dir(path, resume=True)
    release_exp_dir(path)
    save_checkpoint(part, {})
    assert find_checkpoints(read_run(run))
    os.lchown(run / "ckpt", OTHER, OTHER)
    with pytest.raises(ConfigError, match=rf"'{run}/ckpt' is a link of user {OTHER}, which could lead the run to"):
        open_exp_dir(path, resume=True)
    with pytest.raises(ConfigError, match="is a link of user"):
        read_resumable(path)
    with pytest.raises(CheckpointError, match="is a link of user"):
        save_checkpoint(part, {})
    assert not find_checkpoints(read_run(run))
    assert find_begun(path) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_directory_that_another_user_has_put_among_those_of_many_is_not_resumed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    os.chown(run, OTHER, OTHER)
    assert find_begun(str(run)) == str(run)  # a directory of this user's own: a container may have written there
    tmp_path.chmod(0o1777)  # as /tmp
    assert find_begun(str(run)) == ""
    with pytest.raises(ConfigError, match=rf"'{run}' is a directory of user {OTHER}"):
        open_exp_dir(f"{run}/", resume=True)


def test_only_complete_lines_are_read_and_damaged_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = RecordReader(path)
    assert (reader.read(), reader.count) == ([], 0)
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert (reader.read(), reader.count) == ([{"a": 1}, {"a": 2}], 2)
    assert (reader.read(2), reader.count) == ([], 2)
    with path.open("ab") as end:
        end.write(b': 3}\n{"a": {"a": 4}\n[]\n{"a": 5}\n')
    assert (reader.read(2), reader.count) == ([{"a": 3}, {"a": 5}], 6)


def test_lines_that_are_known_are_left_out_however_late_they_come(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n')
    reader = RecordReader(path)
    assert reader.read(3) == []
    with path.open("a") as end:
        end.write('{"a": 2}\n{"a": 3}\n{"a": 4}\n')
    assert reader.read(3) == [{"a": 4}]


def test_a_file_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    reader = RecordReader(path)
    assert [len(reader.read()), reader.cut] == [2, False]
    path.write_text('{"a": 3}\n')
    assert (reader.read(), reader.count, reader.cut) == ([{"a": 3}], 1, True)
    assert [reader.read(), reader.cut] == [[], False]
