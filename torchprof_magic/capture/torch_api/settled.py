"""What torch's profiler does not do although it was asked to, with a warning; ``profile()`` does the same."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from torchprof_magic.capture.torch_api import compat

if TYPE_CHECKING:
    from torchprof_magic.options import ProfileOptions

# To the line of the user's that makes a profile.
_STACK_LEVEL = 6


def settled(options: ProfileOptions) -> ProfileOptions:
    """Return the options of a ``profile`` without what torch would leave out, and warn as torch does."""
    return _with_known_activities(_with_stacks(options))


def _with_stacks(options: ProfileOptions) -> ProfileOptions:
    """Switch off ``trace_only`` in a config that comes with stacks."""
    if not options.with_stack or not compat.is_set_in(options.experimental_config, "trace_only"):
        return options
    text = (
        "trace_only=True is incompatible with with_stack=True (stack traces require event post-processing). "
        "Disabling trace_only."
    )
    warnings.warn(text, stacklevel=_STACK_LEVEL)
    config = copy.copy(options.experimental_config)
    config.trace_only = False
    return replace(options, experimental_config=config)


def _with_known_activities(options: ProfileOptions) -> ProfileOptions:
    """Leave out activities that this machine cannot record, unless it can record none of them."""
    known = compat.available_activities()
    kept = tuple(name for name in options.activities if name in known)
    if not kept or kept == options.activities:
        return options
    for name in options.activities:
        if name not in known:
            text = f"{name.upper()} is not available, disabling {name.upper()} profiling"
            warnings.warn(text, stacklevel=_STACK_LEVEL)
    types = {name: types for name, types in (options.activity_types or {}).items() if name in known}
    return replace(options, activities=kept, activity_types=types or None)
