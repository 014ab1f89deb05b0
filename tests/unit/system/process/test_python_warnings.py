"""torch's warnings are redirected, and those of the user are not affected."""

from __future__ import annotations

import warnings

import pytest

from torchprof_magic.system.process.python_warnings import warnings_to

pytestmark = pytest.mark.filterwarnings("default")


def test_a_warning_of_torch_is_passed_on_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    before = warnings.showwarning
    with warnings_to(said.append):
        warnings.warn("from torch", UserWarning, stacklevel=1)
    assert said == ["from torch"]
    assert warnings.showwarning is before
    assert capsys.readouterr().err == ""


def test_a_warning_that_would_be_an_error_is_passed_on_too() -> None:
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with warnings_to(said.append):
            warnings.warn("from torch", UserWarning, stacklevel=1)
        with pytest.raises(UserWarning, match="of the user"):
            warnings.warn("of the user", UserWarning, stacklevel=1)
    assert said == ["from torch"]


def test_a_warning_of_the_users_that_was_shown_once_is_not_shown_again() -> None:
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_place, **_more: shown.append(str(message))
        for _ in range(3):
            with warnings_to(lambda _: None):
                pass
            warnings.warn("hey", UserWarning, stacklevel=1)
    assert shown == ["hey"]
