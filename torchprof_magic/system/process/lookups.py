"""Looking at the user's objects without running code of their classes.

``isinstance`` reads ``__class__``, which may be a property; ``getattr`` runs ``__getattr__``; ``len`` runs ``__len__``.
What is asked here is answered by Python's own types.
"""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")
_MRO: Any = type.__dict__["__mro__"]
_ATTRIBUTES: Any = type.__dict__["__dict__"]


def is_a(value: object, kinds: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    """Return whether the type of a value is one of these classes, or derived from one.

    The classes are not abstract: those have a say in what is derived from them.
    """
    return issubclass(type(value), kinds)


def derives(value: object, kind: type) -> bool:
    """Return the same as ``is_a``, more slowly, for a class that may be abstract."""
    return any(one is kind for one in _MRO.__get__(type(value)))


def definer(kind: type, name: str) -> type | None:
    """Return the class in which Python finds the special method ``name`` of a type's objects, if any has it."""
    return next((one for one in _MRO.__get__(kind) if name in _ATTRIBUTES.__get__(one)), None)


def module_of(kind: type | None) -> str:
    """Return the name of the module that defines a class, as its body says; empty for none."""
    found = None if kind is None else _ATTRIBUTES.__get__(kind).get("__module__")
    return found if isinstance(found, str) else ""


def special(value: object, name: str) -> Any:
    """Return a special method as Python finds it, on the type and not on the object; None if there is none."""
    kind: Any = type(value)
    owner = definer(kind, name)
    if owner is None:
        return None
    found = _ATTRIBUTES.__get__(owner)[name]
    bind = getattr(type(found), "__get__", None)
    return found if bind is None else bind(found, value, kind)


def attributes_of(value: object) -> dict[str, Any]:
    """Return the dictionary of an object's own attributes; an empty one if it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
