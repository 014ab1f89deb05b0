"""What do the flags of a line, a preset and the configuration become together?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import parse_argstring

from torchprof_magic.errors import OptionsError
from torchprof_magic.ipython.extension import load, unload
from torchprof_magic.ipython.flags import COUNTS, SWITCHES, completed, options_of
from torchprof_magic.ipython.magics import TorchProfMagics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.options import ProfileOptions


@pytest.fixture
def magics() -> Iterator[TorchProfMagics]:
    shell = InteractiveShell()
    load(shell)
    yield next(known for known in shell.configurables if isinstance(known, TorchProfMagics))
    unload(shell)


def options(magics: TorchProfMagics, line: str) -> ProfileOptions:
    return options_of(completed(parse_argstring(TorchProfMagics.torchprof, line), magics))


def switched_on(found: ProfileOptions) -> set[str]:
    return {name for name, option in SWITCHES.items() if getattr(found, option)}


def test_without_flags_nothing_extra_is_recorded_and_the_schedule_follows_the_loop(magics: TorchProfMagics) -> None:
    found = options(magics, "")
    assert switched_on(found) == set()
    assert found.schedule.is_adaptive
    assert found.activities == ()


@pytest.mark.parametrize("name", list(SWITCHES))
def test_every_switch_can_be_turned_on_and_off_on_the_line(magics: TorchProfMagics, name: str) -> None:
    flag = name.replace("_", "-")
    assert switched_on(options(magics, f"--{flag}")) == {name}
    setattr(magics, name, True)
    assert switched_on(options(magics, "")) == {name}
    assert switched_on(options(magics, f"--no-{flag}")) == set()


@pytest.mark.parametrize("name", COUNTS)
def test_every_count_comes_from_the_line_or_else_from_the_configuration(magics: TorchProfMagics, name: str) -> None:
    setattr(magics, name, 4)
    assert getattr(options(magics, "").schedule, name) == 4
    assert getattr(options(magics, f"--{name.replace('_', '-')} 2").schedule, name) == 2


@pytest.mark.parametrize(
    ("preset", "switches"),
    [("quick", set()), ("memory", {"shapes", "memory"}), ("full", {"shapes", "memory", "stack", "flops"})],
)
def test_a_preset_is_a_set_of_switches_on_the_line_or_in_the_configuration(
    magics: TorchProfMagics, preset: str, switches: set[str]
) -> None:
    assert switched_on(options(magics, f"--preset {preset}")) == switches
    magics.preset = preset
    assert switched_on(options(magics, "")) == switches


def test_a_flag_wins_over_a_preset_and_a_preset_on_the_line_over_the_configuration(magics: TorchProfMagics) -> None:
    assert switched_on(options(magics, "--preset memory --no-shapes --stack")) == {"memory", "stack"}
    magics.preset, magics.stack = "full", True
    assert switched_on(options(magics, "--preset quick")) == set()
    magics.memory = False
    assert switched_on(options(magics, "")) == {"shapes", "stack", "flops"}


def test_activities_may_be_written_with_commas_or_spaces(magics: TorchProfMagics) -> None:
    assert options(magics, "--activities CPU,cuda").activities == ("cpu", "cuda")
    assert options(magics, "--activities 'cpu, cuda'").activities == ("cpu", "cuda")
    with pytest.raises(OptionsError, match="cpu is named twice"):
        options(magics, "--activities cpu,cpu")


def test_the_configuration_lists_every_flag_and_goes_with_the_extension(magics: TorchProfMagics) -> None:
    shell = magics.shell
    traits = TorchProfMagics.class_own_traits(config=True) | TorchProfMagics.class_traits(config=True)
    assert {*COUNTS, *SWITCHES, "preset", "skip_first_wait", "activities", "step", "display"} <= set(traits)
    load(shell)
    assert sum(isinstance(known, TorchProfMagics) for known in shell.configurables) == 1
    unload(shell)
    assert not any(isinstance(known, TorchProfMagics) for known in shell.configurables)
    assert "torchprof" not in shell.magics_manager.magics["cell"]
