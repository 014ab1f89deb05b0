from __future__ import annotations

import pytest

from torchprof_magic.errors import OptionsError
from torchprof_magic.options import ProfileOptions, ScheduleOptions


@pytest.mark.parametrize(
    ("name", "value"), [("wait", -1), ("warmup", -1), ("active", 0), ("repeat", -1), ("skip_first", -2)]
)
def test_a_schedule_value_out_of_range_is_refused_with_its_flag(name: str, value: int) -> None:
    with pytest.raises(OptionsError, match=f"--{name.replace('_', '-')} must be at least"):
        ScheduleOptions(**{name: value})


def test_a_schedule_is_adaptive_only_while_nothing_was_asked_for() -> None:
    assert ScheduleOptions().is_adaptive
    assert not ScheduleOptions(active=3).is_adaptive


def test_an_unknown_activity_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionsError, match="unknown gpu; choose from cpu, cuda"):
        ProfileOptions(activities=("gpu",))
