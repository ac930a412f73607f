"""Signals that a process passes on to the runs it has started."""

from __future__ import annotations

import os
import signal

import pytest

from ding_lite.utils.run_process import passing_signals_on


@pytest.mark.parametrize(
    "before", [signal.SIG_IGN, signal.default_int_handler], ids=["in a script's background", "else"]
)
def test_the_first_signal_is_told_and_the_handler_restored(before: signal.Handlers) -> None:
    own = signal.signal(signal.SIGINT, before)
    try:
        with passing_signals_on(list) as received:
            assert received() == 0
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            assert received() == signal.SIGINT
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, own)
