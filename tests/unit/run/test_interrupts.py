"""No interrupt gets lost while a report is made."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

import pytest

from torchprof_magic.run.interrupts import interrupts_raise


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def swallow() -> None:
    """Do what compiled libraries do with an exception that comes while they call Python."""
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_a_library_swallows_is_raised_when_it_is_done() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=False):
        swallow()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_fails_because_an_interrupt_was_swallowed_counts_as_interrupted() -> None:
    def fail(*, is_interrupted: bool) -> None:
        if is_interrupted:
            swallow()
        raise TypeError("not a data type")

    with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=False):
        fail(is_interrupted=True)
    with pytest.raises(TypeError, match="not a data type"), interrupts_raise(is_awaiting=False):
        fail(is_interrupted=False)


def test_an_interrupt_that_came_out_past_the_end_of_the_block_is_not_raised_once_more() -> None:
    block = interrupts_raise(is_awaiting=False)
    block.__enter__()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    with pytest.MonkeyPatch.context() as patched:
        ignored: list[object] = []
        patched.setattr(sys, "unraisablehook", ignored.append)
        del block
    assert ignored == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_library_that_panics_was_interrupted_or_fails_like_any_other() -> None:
    class PanicException(BaseException):
        """No ``Exception``: it would end the cell in place of its own result."""

    def panic(*, is_interrupted: bool) -> None:
        if is_interrupted:
            swallow()
        raise PanicException("called unwrap on an Err value")

    with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=False):
        panic(is_interrupted=True)
    with pytest.raises(RuntimeError, match="PanicException: called unwrap"), interrupts_raise(is_awaiting=False):
        panic(is_interrupted=False)
    with pytest.raises(SystemExit), interrupts_raise(is_awaiting=False):
        sys.exit(3)


def test_a_handler_of_the_users_own_decides_what_an_interrupt_is() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: got.append(number))
    try:
        with interrupts_raise(is_awaiting=False):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert got == [signal.SIGINT]


def test_interrupt_is_raised_where_nothing_awaits_and_the_handler_comes_back() -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        mine = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=True):
            interrupt()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
