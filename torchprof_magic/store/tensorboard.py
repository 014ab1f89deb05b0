"""Which names of files does TensorBoard's profiler plugin look for?"""

from __future__ import annotations

from torchprof_magic.store.template import check_name


def tensorboard_name(worker: str, time_ns: int, *, gzip: bool = False) -> str:
    """Return the name that ``torch.profiler.tensorboard_trace_handler`` gives to a trace of this worker.

    ``time_ns`` is nanoseconds since 1970 and keeps two traces of one worker apart. torch's own default for the worker
    holds the name of the machine; here it is always given. Raises ``OptionsError`` when it cannot be part of a name.
    """
    return check_name(f"{worker}.{time_ns}.pt.trace.json{'.gz' if gzip else ''}", "--tensorboard")
