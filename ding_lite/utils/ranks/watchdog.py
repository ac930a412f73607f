"""Detects a rank that has died, hangs or was cut off, and ends all processes of the job with a line that says why.

A thread ends a process whose main thread makes no progress for too long. With several ranks, it also reports the
progress about once a second, through the store at MASTER_ADDR:MASTER_PORT, and reads reports of others. One thread
serves the store, so what it has to do must not grow with the square of the ranks: rank 0 reads all reports, the first
`OBSERVERS` ranks of a machine all of their machine, and others those of the observers. All ranks read the cause that
one of them publishes. These count as lost:

* a rank whose main thread makes no progress for `timeout`, excluding waits for other ranks. It prints where it hangs,
  and ends.
* a rank of this machine whose process has ended, immediately; or whose process is stopped (SIGSTOP, or a C call that
  keeps the GIL) for `timeout`. It is killed, so that the launcher names it.
* a machine without a report for `dead_timeout`, or the store if it cannot be reached for that time.

A rank that loses another prints one line and waits `EXIT_DELAY`, so that the launcher sees the lost rank first.

What stands in the store counts only if a rank of this meeting has signed it, and names no file. A process is killed
only if this process's launcher has started it too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch.distributed as dist

from ding_lite.utils.ranks.heartbeat import heartbeat, progress, waiting, writing
from ding_lite.utils.ranks.launch_environment import record_cause, sibling_error_file
from ding_lite.utils.ranks.meeting import Meeting, Peer, poll_period, show_place

INTERVAL = 1.0  # seconds between two checks
CLEANUP_TIMEOUT = 30.0  # seconds that the clean-up after an error may take
LAST_WORD = 5.0  # seconds that a rank waits for the others to leave, if its end would disturb them
EXIT_DELAY = 2.0  # seconds between a loss and the end of the other ranks; torch's launcher compares whole seconds
CAUSE_SEARCH_TIMEOUT = 6.0  # seconds for which a rank whose collective failed searches for the cause
MACHINE_SILENCE_TIMEOUT = 4.0  # seconds without a report after which, in that search, a machine counts as lost
OBSERVERS = 4  # ranks of a machine
NOTICE = 1.5 * INTERVAL  # seconds: every rank reads the reports at least once in this time
LEAVE_POLLS = 10  # looks at the store within which every rank that waits for others looks at least once
JOIN_STEP = 0.25  # seconds
NOTHING, STATUS_0 = "-", "status 0"


class Beat(NamedTuple):
    """One report of a rank."""

    number: int
    stage: str
    stalled: int  # seconds since its last progress
    waiting: bool
    left: str  # how it left the group; empty while it is in it
    asked: int = 0  # the last run that a signal asked any rank it knows of to stop, see `progress`
    idle: int = 0  # of rank 0: seconds since the last progress of any rank; of others: `stalled`


FIRST_BEAT = Beat(1, "", 0, False, "")


def first_reports(world_size: int) -> dict[str, str]:
    """Return the keys of a meeting that `Watchdog` uses, and their first values: every key that is read exists."""
    return dict.fromkeys(("cause", *map(str, range(world_size))), NOTHING)


def _bounded(call: Callable[[], None], seconds: float) -> None:
    """Wait at most `seconds` for a call that may block, such as one to a store whose process is stopped."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    for _ in range(round(seconds / JOIN_STEP)):  # a process that is suspended meanwhile does not wait
        thread.join(JOIN_STEP)
        if not thread.is_alive():
            return


class Watchdog:
    """The thread that ends this process if its main thread makes no progress outside a wait for others for `timeout`.

    A call of `heartbeat` is progress, and so are the end of a wait for other ranks, reading or writing a file, and all
    of `writing`: a large checkpoint may take long, and so may a slow disk.

    Args:
        timeout: seconds without progress that are a hang.
        dead_timeout: seconds without a report after which a machine counts as dead.
        meeting: in which the ranks have met, with the keys of `first_reports`; None: this process is watched alone.
    """

    def __init__(self, timeout: float, dead_timeout: float, meeting: Meeting | None) -> None:
        self._timeout, self._meeting = timeout, meeting
        self._clock = 0.0  # seconds that this process ran
        self._progressed = 0.0  # value of the clock at the last progress
        self._moved = 0.0  # value of the clock when the main thread last made progress, waited, or was not watched
        self._failed = 0.0  # value of the clock when the main thread last was not cleaning up after an error
        self._seen: tuple[int, str] = (0, "")  # heartbeats and ended waits; bytes that the main thread read and wrote
        self._leaving, self._stop = threading.Event(), threading.Event()
        self._main, self._io = threading.get_ident(), Path(f"/proc/self/task/{threading.get_native_id()}/io")
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._store: dist.Store | None = None
        self._reached = 0.0  # value of the clock when this rank last reached the store
        self._number, self._left = 1, ""
        self._published = ""  # the cause that any rank has published
        self._cause, self._found = "", threading.Event()
        if meeting is not None:
            self._key, self._peers, self._keeper = meeting.key, meeting.peers, meeting.keeper
            self._signer = meeting.signer
            self._launch, self._rank, self._size = meeting.launch, meeting.launch.rank, meeting.launch.world_size
            self._hosts_store, self._place = self._keeper.rank == self._rank, show_place(meeting.launch)
            self._silence = max(dead_timeout / 2, dead_timeout - EXIT_DELAY - 2 * INTERVAL)
            self._beats, self._heard = [FIRST_BEAT] * self._size, [0.0] * self._size
            self._poll, self._observed = poll_period(self._size), self._find_observed()

    def _find_observed(self) -> set[int]:
        """Return the ranks whose reports this rank always reads."""
        near = [peer.rank for peer in self._peers if self._near(peer)]
        first = [peer.rank for peer in self._peers if peer.machine == self._peers[0].machine]
        own = near if self._rank in near[:OBSERVERS] else near[:OBSERVERS]
        return {self._rank, *own, *first[:OBSERVERS]} if self._rank else set(range(self._size))

    def start(self) -> None:
        """Start the thread; every rank of the group must call this."""
        if self._meeting is not None:
            self._connect()
        heartbeat("")
        self._thread.start()

    def _connect(self) -> dist.Store:
        if self._store is None:
            assert self._meeting is not None
            self._store = self._meeting.connect(2 * self._silence)  # `_bounded` comes first, and prints nothing
        return self._store

    def _tell(self, store: dist.Store) -> None:
        self._number += 1
        stalled, waits = round(self._clock - self._progressed), waiting().depth > 0
        others = self._beats[1:] if self._rank == 0 else []
        idle = min([stalled, *(beat.stalled for beat in others if not beat.left)])
        asked = max(progress.asked[0], progress.others_asked)
        beat = Beat(self._number, progress.stage, stalled, waits, self._left, asked, idle)
        store.set(f"{self._key}/{self._rank}", self._signer.dump(beat, str(self._rank)))

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(INTERVAL):
            now = time.monotonic()
            # A process that was suspended must not conclude that the others were.
            self._clock += min(now - last, 2 * INTERVAL)
            last = now
            self._observe()
            failure, limit = progress.failure, self._timeout + 2 * INTERVAL
            if failure is None and self._clock - self._moved >= limit:
                seconds = self._clock - self._moved
                what = f"no progress for {seconds:.0f} s in '{progress.stage}' (time-out {self._timeout:g} s)"
                self._end(what, what)
            # A clean-up that waits for the others hangs too: they end soon after this limit.
            if failure is not None and (
                self._clock - self._failed >= CLEANUP_TIMEOUT or self._clock - self._progressed >= limit
            ):
                what = " ".join(f"{type(failure).__name__}: {failure}".split())
                trace = "".join(traceback.format_exception(failure))
                seconds = min(CLEANUP_TIMEOUT, self._timeout)
                self._end(f"{trace}Cleaning up after this error takes more than {seconds:g} s", f"failed: {what}")
            cause = self._meeting is not None and (self._look() or self._waits_in_vain())
            if cause and not self._stop.is_set():
                self._end_lost(cause)
                return

    def _observe(self) -> None:
        """Find out whether the main thread has made progress."""
        waits, io = waiting().depth > 0, self._seen[1]
        if not waits:
            with suppress(OSError):  # the system counts no bytes
                io = self._io.read_text()
        seen = progress.count + waiting().ended + (progress.failure is not None), io
        if seen != self._seen or writing().depth:
            self._seen, self._progressed = seen, self._clock
        if self._progressed == self._clock or waits or not progress.stage or self._leaving.is_set():
            self._moved = self._clock
        if progress.failure is None or self._leaving.is_set():
            self._failed = self._clock

    def _end(self, why: str, cause: str) -> None:
        """Print why and where the main thread hangs, record the cause, and end the process."""
        stack = "".join(traceback.format_stack(sys._current_frames()[self._main]))
        self._say(f"{why}; ended. It hangs here:\n{stack}")
        self._tell_end(cause)
        os._exit(1)

    def _waits_in_vain(self) -> str:
        """Return for whom this rank waits if no rank has made progress for the time-out; a hanging rank ends first."""
        limit = self._timeout + 4 * INTERVAL
        beats = [(peer, beat) for peer, beat in zip(self._peers, self._beats, strict=True) if peer.rank != self._rank]
        idle = [self._clock - self._progressed, *(beat.stalled for _, beat in beats if not beat.left)]
        if not waiting().depth or min(idle) < limit:
            return ""
        late = [
            f"{peer}{beat.stage and ' in ' + repr(beat.stage)}, last progress {beat.stalled} s ago"
            for peer, beat in beats
            if not beat.waiting and not beat.left
        ]
        for_whom = ", ".join(late) or "the others, which wait too: not every rank calls the same collectives"
        return f"it waited {self._timeout:g} s for {for_whom}. Expected longer? Set DING_LITE_TIMEOUT"

    def _tell_end(self, what: str) -> None:
        """Record why this process ends."""
        if self._meeting is None:
            record_cause(what)
            return
        cause = f"{self._peers[self._rank]}: {what}"
        record_cause(cause)
        _bounded(lambda: self._publish(cause), NOTICE)
        if self._hosts_store:
            time.sleep(NOTICE)  # let the others read it

    def _say(self, text: str) -> None:
        rank = "" if self._meeting is None else f"[rank {self._rank}] "
        os.write(2, "".join(f"{rank}{line}\n" for line in text.splitlines()).encode())

    def _look(self) -> str:
        """Publish a report, and return what is wrong with other ranks or the store, if anything."""
        # Found before the reports are read: one that reports and ends in between has given its cause.
        gone = {peer.rank for peer in self._peers if self._near(peer) and not peer.state}
        read = range(self._size) if self._reads_all() else sorted(self._observed | gone)
        error = self._exchange(read)
        if self._published:
            return self._published
        if error and self._keeper.rank == 0 and self._beats[0].left:  # nobody can report without a store
            return self._judge(self._peers[0], gone=False)
        for peer, beat in ((self._peers[rank], self._beats[rank]) for rank in read):
            found = self._judge(peer, peer.rank in gone)
            if found:
                if not error:
                    _bounded(lambda: self._publish(found), NOTICE)  # noqa: B023 (it is called at once)
                if self._near(peer) and peer.rank not in gone and not beat.left:
                    self._kill(peer, found)  # only now, as it may keep the store
                return found
        return self._judge_keeper(error) if error else ""

    def _reads_all(self) -> bool:
        """Return whether this rank needs all reports: rank 0 has left, a collective failed, or all ranks hang."""
        idle = min(self._clock - self._progressed, self._beats[0].idle)
        return bool(self._beats[0].left) or self._leaving.is_set() or (waiting().depth > 0 and idle >= self._timeout)

    def _exchange(self, ranks: Sequence[int]) -> str:
        """Publish a report and read those of some ranks; return why the store cannot be reached, if it cannot."""
        away = self._near(self._keeper) and self._keeper.state in ("", "T", "t")
        if away or (self._keeper.rank == 0 and self._beats[0].left):
            return "no such process"  # trying its store would print a C++ backtrace
        news, errors = list[bytes](), [f"no answer within {self._silence:g} s"]
        _bounded(partial(self._ask, ranks, news, errors), self._silence)
        if not news:
            self._store = None
            return errors[-1]
        self._reached = self._clock
        *texts, cause = news
        self._published = self._signer.load(cause, "cause") or ""
        for rank, text in zip(ranks, texts, strict=True):
            beat = Beat(*(self._signer.load(text, str(rank)) or FIRST_BEAT))
            if beat.number <= self._beats[rank].number:  # there is no new one
                continue
            self._heard[rank] = self._clock
            if rank != self._rank:
                progress.others_asked = max(progress.others_asked, beat.asked)
            self._beats[rank] = beat
        return ""

    def _ask(self, ranks: Sequence[int], news: list[bytes], errors: list[str]) -> None:
        """Append the reports and the known cause to `news`, or what went wrong to `errors`."""
        try:
            store = self._connect()
            self._tell(store)
            news += store.multi_get([f"{self._key}/{key}" for key in (*ranks, "cause")])
        except RuntimeError as error:
            errors.append(str(error).partition("\n")[0])

    def _publish(self, cause: str) -> None:
        """Tell all ranks the cause, unless a rank has told one before."""
        with suppress(RuntimeError):
            store, key = self._connect(), f"{self._key}/cause"
            before = store.get(key)
            if self._signer.load(before, "cause") is None:
                message = self._signer.dump(cause, "cause")
                store.compare_set(key, before, message)  # type: ignore[arg-type]  # bytes, in spite of torch's hints

    def _near(self, peer: Peer) -> bool:
        return peer.machine == self._peers[self._rank].machine

    def _judge(self, peer: Peer, gone: bool) -> str:
        """Return why a rank is lost, if it is; silence counts only while the store can be reached."""
        beat, silent = self._beats[peer.rank], self._reached - self._heard[peer.rank]
        asked = self._leaving.is_set()  # a collective has failed
        if beat.left:
            early = asked or (beat.left != STATUS_0 and silent >= self._silence)
            return f"{peer} has left with {beat.left}" if early else ""
        if gone:
            return f"{peer} is gone: it was killed, or ended without an exception"
        if self._near(peer):
            return self._describe_stuck(peer) if silent >= self._timeout and peer.rank != self._rank else ""
        others = [self._heard[other.rank] for other in self._peers if other.machine == peer.machine]
        if self._reached - max(others) >= (min(MACHINE_SILENCE_TIMEOUT, self._silence) if asked else self._silence):
            return f"{peer} was not heard of for {silent:.0f} s: its machine is dead or cut off"
        return ""

    def _judge_keeper(self, error: str) -> str:
        """Return why the process that keeps the store is lost, if it is; the store cannot be reached."""
        keeper = self._keeper
        if not self._near(keeper) or not keeper.state:
            return f"{keeper}, which keeps the store at {self._place}, is dead or cut off: {error}"
        # It is stopped, which ends a rank in the end but not the launcher, or was too busy to answer in time.
        if keeper.rank < 0 or self._clock - self._reached < self._timeout:
            return ""
        return self._kill(keeper, self._describe_stuck(keeper))

    def _describe_stuck(self, peer: Peer) -> str:
        how = "its process is stopped" if peer.state in ("T", "t") else "a call keeps the interpreter from running"
        end = "killed" if peer.is_sibling else "another launcher started it, so end it yourself"
        return f"{peer} gave no sign of life for {self._timeout:g} s ({how}); {end}"

    def _kill(self, peer: Peer, cause: str) -> str:
        if peer.is_sibling:
            record_cause(cause, sibling_error_file(self._launch, peer.rank))
            with suppress(OSError):
                os.kill(peer.pid, signal.SIGKILL)
        return cause

    def _end_lost(self, cause: str) -> None:
        """End the process, unless its main thread is already leaving."""
        self._cause = cause
        self._say(f"ends because {cause}")
        self._found.set()
        if not self._leaving.wait(EXIT_DELAY) and not self._stop.is_set():
            record_cause(f"lost another rank: {cause}", lost_peer=True)
            os._exit(1)

    def lost_others(self) -> bool:
        """Return whether another rank is known to be lost."""
        return self._found.is_set()

    def explain(self) -> str:
        """Return why a collective of several ranks failed; empty if the other ranks are fine."""
        self._leaving.set()
        if not self._found.wait(CAUSE_SEARCH_TIMEOUT):
            return ""
        time.sleep(EXIT_DELAY)
        return self._cause

    def first_mistake(self, mistake: str) -> str:
        """Return the mistake that ends rank 0, so that one of all ranks is printed once; empty without one."""
        if self._store is None:
            return ""
        key, found = f"{self._key}/mistake", list[str]()

        def ask(store: dist.Store) -> None:
            deadline = time.monotonic() + LAST_WORD
            with suppress(RuntimeError):  # the store may be gone
                if self._rank == 0:
                    store.set(key, self._signer.sign(mistake.encode(), "mistake").decode())
                while not store.check([key]) and time.monotonic() < deadline:
                    time.sleep(self._poll)
                if store.check([key]):
                    found.append((self._signer.verify(store.get(key), "mistake") or b"").decode())

        _bounded(partial(ask, self._store), LAST_WORD + NOTICE)
        return "".join(found)

    def stop(self, status: int = 0, cause: str = "", alike: bool = False) -> None:
        """End the thread. With several ranks, also report the exit status, and the cause in one line if it failed.

        A rank whose end would disturb the others, because the store ends with it or the launcher then ends them, waits
        up to `LAST_WORD` for them to leave; also if the others probably fail alike.
        """
        self._leaving.set()
        self._stop.set()
        self._thread.join(LAST_WORD)
        heartbeat("")
        if self._store is not None and not self._cause and not self._thread.is_alive():
            _bounded(lambda: self._take_leave(status, cause, alike), LAST_WORD + NOTICE)

    def _take_leave(self, status: int, cause: str, alike: bool) -> None:
        store = self._connect()
        with suppress(RuntimeError):  # the store may be gone
            store.add(f"{self._key}/left", 1)
            if alike:
                self._wait_for_all(store, LAST_WORD)
            if cause:
                self._publish(f"{self._peers[self._rank]} failed: {cause}")
            self._left = f"status {status}"
            self._tell(store)
            if self._hosts_store or (status and not cause):
                self._wait_for_all(store, NOTICE if cause else LAST_WORD)

    def _wait_for_all(self, store: dist.Store, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and store.add(f"{self._key}/left", 0) < self._size:
            self._tell(store)  # shows that this rank is alive
            time.sleep(self._poll)
        if self._hosts_store:
            # Let the others see it too: a store that goes away meanwhile prints a C++ backtrace.
            time.sleep(LEAVE_POLLS * self._poll)
