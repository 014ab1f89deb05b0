"""The user's own rules for advice, and which rules speak from when on.

``tp.rules.add(fn)`` adds a function that gets a ``Trace`` and returns ``Advice``, several of them, or None. It holds
for all reports of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from torchprof_magic.findings.advice import RULES, Settings, name_of
from torchprof_magic.model.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchprof_magic.findings.advice import Advice, Rule
    from torchprof_magic.model.trace import Trace

    Own = TypeVar("Own", bound=Callable[[Trace], Advice | Iterable[Advice] | None])

_KEYS = ("mute", "threshold", "thresholds")
_settings = Settings()


def add(rule: Own) -> Own:
    """Add a rule, and return it, so that this also works as a decorator. One of the same name is replaced.

    Raises ``TypeError`` for what cannot be called.
    """
    global _settings  # noqa: PLW0603 - one list for the process
    if not callable(rule):
        raise TypeError(f"a rule is a function of a trace (got {type(rule).__name__})")
    others = tuple(own for own in _settings.own if name_of(own) != name_of(rule))
    _settings = replace(_settings, own=(*others, rule))
    return rule


def remove(rule: Callable[..., object] | str) -> None:
    """Remove a rule that was added, given by itself or by its name. Raises ``ValueError`` if there is none."""
    global _settings  # noqa: PLW0603 - one list for the process
    name = rule if isinstance(rule, str) else name_of(rule)
    others = tuple(own for own in _settings.own if name_of(own) != name)
    if len(others) == len(_settings.own):
        raise ValueError(f"no rule {name!r} was added")
    _settings = replace(_settings, own=others)


def known() -> list[Rule]:
    """Return the rules that come with the package: name, function, when each speaks, and what must be recorded."""
    return list(RULES)


def configure(values: Mapping[str, object]) -> None:
    """Set which rules are muted, and from which share of a step on they speak; ``{}`` restores the defaults.

    Args:
        values: ``mute``, a list of names; ``threshold``, a share between 0 and 1; ``thresholds``, one by name.

    Raises ``OptionsError`` for another key or value.
    """
    global _settings  # noqa: PLW0603 - one list for the process
    _settings = settings_of(values, Settings(own=_settings.own))


def settings_of(values: Mapping[str, object], settings: Settings | None = None) -> Settings:
    """Return settings with some values replaced; by default those of this process."""
    found = current() if settings is None else settings
    for key, value in values.items():
        if key not in _KEYS:
            raise OptionsError(f"advice: unknown {key!r}; choose from {', '.join(_KEYS)}")
        if key == "mute":
            found = replace(found, mute=_names(value))
        elif key == "threshold":
            found = replace(found, threshold=_share(key, value))
        else:
            found = replace(found, thresholds=_shares(value))
    return found


def current() -> Settings:
    """Return the settings of this process."""
    return _settings


def _names(value: object) -> frozenset[str]:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise OptionsError(f"advice: mute takes a list of names of rules (got {value!r})")
    names = frozenset(str(name) for name in value)
    unknown = sorted(names - {rule.name for rule in RULES} - {name_of(own) for own in _settings.own})
    if unknown:
        raise OptionsError(f"advice: no rule {unknown[0]!r}; choose from {', '.join(rule.name for rule in RULES)}")
    return names


def _shares(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise OptionsError(f"advice: thresholds takes a dict of names and shares (got {value!r})")
    _names(list(value))
    return {str(name): _share(str(name), share) for name, share in value.items()}


def _share(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise OptionsError(f"advice: {key} must be a share between 0 and 1 (got {value!r})")
    return float(value)
