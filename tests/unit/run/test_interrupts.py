"""No interrupt is lost while a report is made."""

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


def test_an_interrupt_that_a_library_swallows_is_raised_when_it_returns() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=False):
        swallow()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_after_a_swallowed_interrupt_counts_as_the_interrupt() -> None:
    def fail(*, is_interrupted: bool) -> None:
        if is_interrupted:
            swallow()
        raise TypeError("not a data type")

    with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=False):
        fail(is_interrupted=True)
    with pytest.raises(TypeError, match="not a data type"), interrupts_raise(is_awaiting=False):
        fail(is_interrupted=False)


def test_an_interrupt_that_was_already_raised_is_not_raised_again() -> None:
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


def test_a_panic_is_an_interrupt_or_an_ordinary_error() -> None:
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


def test_a_handler_of_the_users_own_stays_in_place() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: got.append(number))
    try:
        with interrupts_raise(is_awaiting=False):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert got == [signal.SIGINT]


def test_an_interrupt_is_raised_where_nothing_awaits_and_the_handler_is_restored() -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        mine = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts_raise(is_awaiting=True):
            interrupt()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
