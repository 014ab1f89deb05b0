"""Files in good JSON whose events do not fit together: open ends, overlaps, disorder, other vendors and years."""

from __future__ import annotations

from bad_files.making import A, B, BadFile, C, event, kept, trace

THREADS = 100_000
AT_ZERO = event("a", 0, tid="0")
UNCLOSED = {"chrome.unclosed_event": 1}
NO_BYTES = {"memory.no_size": 1}


STRAY_END = {"chrome.end_without_begin": 1}


def waits_for(record: str) -> str:
    """Return a wait of a stream for the event that the call of this number recorded."""
    args = '{"cuda_sync_kind": "Stream Wait Event", "wait_on_cuda_event_record_corr_id": ' + record + "}"
    return event("w", 3, cat='"cuda_sync"', args=args)


def begin(name: str, ts: object, tid: str = "1") -> str:
    """Return the JSON of an event's beginning."""
    return event(name, ts, ph='"B"', dur=None, args=None, tid=tid)


def end(ts: object, tid: str = "1") -> str:
    """Return the JSON of the end of the last event that began on the thread."""
    return event("", ts, ph='"E"', name=None, dur=None, args=None, tid=tid)


PAIRS: tuple[BadFile, ...] = (
    kept("a beginning and its end", trace(begin("a", 1), end(4)), "a", durs_ns=[3000]),
    kept(
        "a beginning without its end lasts to the last moment",
        trace(begin("a", 1), event("b", 2, 5)),
        "a b",
        UNCLOSED,
        durs_ns=[6000, 5000],
    ),
    kept("an end without its beginning", trace(A, end(2), B), "a b", STRAY_END),
    kept(
        "beginnings and ends in one another",
        trace(begin("a", 1), begin("b", 2), end(3), begin("c", 4), end(5), end(9)),
        "a b c",
        durs_ns=[8000, 1000, 1000],
    ),
    kept(
        "beginnings and ends of two threads in turn",
        trace(begin("a", 1), begin("b", 2, "2"), end(4), end(5, "2")),
        "a b",
        durs_ns=[3000, 3000],
    ),
    kept(
        "ends on another thread than the beginning",
        trace(begin("a", 1), end(4, "2"), event("b", 2, 3)),
        "a b",
        UNCLOSED | STRAY_END,
        durs_ns=[4000, 3000],
    ),
    kept("ends before beginnings in the file, but not in time", trace(end(4), begin("a", 1)), "a", durs_ns=[3000]),
    kept("a beginning and an end at the same moment", trace(begin("a", 1), end(1)), "a", durs_ns=[0]),
    kept("beginnings in a bare list", f"[{begin('a', 1)}, {end(3)}]".encode(), "a", durs_ns=[2000]),
    kept("a beginning without a time", trace(A, begin("b", '"N/A"')), "a", {"chrome.no_time": 1}),
    kept(
        "an end without a time",
        trace(begin("a", 1), event("b", 2, 5), end("null")),
        "a b",
        UNCLOSED | {"chrome.no_time": 1},
        durs_ns=[6000, 5000],
    ),
    kept(
        "a beginning 3 years before all others",
        trace(A, B, begin("x", -1e14), end(2)),
        "a b",
        STRAY_END | {"chrome.stray_time": 1},
    ),
    kept(
        "an end 3 years after all others",
        trace(A, begin("b", 3), C, end(1e14)),
        "a b c",
        UNCLOSED | {"chrome.stray_time": 1},
        durs_ns=[1000, 3000, 1000],
    ),
    kept(
        "an open event and another of a wrong clock",
        trace(begin("a", 1), event("b", 2, 5), event("x", 1e14)),
        "a b",
        UNCLOSED | {"chrome.stray_time": 1},
        durs_ns=[6000, 5000],
    ),
    kept(
        "an open event and another of 3 years",
        trace(begin("a", 1), event("b", 2, 1e14), event("c", 4)),
        "a b c",
        UNCLOSED | {"chrome.absurd_duration": 1},
        durs_ns=[4000, 0, 1000],
    ),
    kept("times at both ends of int64", trace(A, B, begin("x", -9.2e15), end(9.2e15)), "a b", {"chrome.no_time": 2}),
)

OVERLAPS: tuple[BadFile, ...] = (
    kept(
        "two events that partly overlap",
        trace(event("a", 1, 3), event("b", 3, 3)),
        "a b",
        {"chrome.partial_overlap": 1},
    ),
    kept(
        "three events of which each overlaps the next",
        trace(event("a", 1, 3), event("b", 3, 3), event("c", 5, 3)),
        "a b c",
        {"chrome.partial_overlap": 2},
    ),
    kept("the same times on two threads", trace(event("a", 1, 3), event("b", 3, 3, tid="2")), "a b"),
    kept("the same event twice", trace(event("a", 1, 3), event("a", 1, 3)), "a a"),
    kept("events without length at one moment", trace(event("a", 1, 0), event("b", 1, 0), event("c", 1, 0)), "a b c"),
    kept("unsorted events", trace(C, A, B), "a b c", starts_ns=[0, 2000, 4000]),
    kept("children before their parents", trace(event("b", 2, 1), event("a", 1, 9)), "a b"),
)


def arrow(phase: str, number: object, ts: object) -> str:
    """Return the JSON of one end of an arrow between events."""
    return event("ac2g", ts, ph=f'"{phase}"', cat='"ac2g"', id=f"{number}", dur=None, args=None)


def kernel(name: str, ts: object, correlation: int, **changes: str) -> str:
    """Return the JSON of a kernel on stream 3 of device 2."""
    args = f'{{"device": 2, "stream": 3, "correlation": {correlation}}}'
    return event(name, ts, cat='"kernel"', pid="2", tid="3", args=args, **changes)


LAUNCH = event("hipLaunchKernel", 1, cat='"cuda_runtime"', args='{"correlation": 11}')

KINDS: tuple[BadFile, ...] = (
    kept("arrows with one end", trace(A, arrow("s", 1, 1), arrow("f", 2, 3), B), "a b"),
    kept("the same arrow twice", trace(A, *[arrow("s", 1, 1), arrow("f", 1, 3)] * 2, B), "a b"),
    kept("an arrow whose number is a list", trace(A, arrow("s", "[1]", 1), B), "a b", {"chrome.odd_value": 1}),
    kept("an arrow without a time", trace(A, arrow("s", 1, "null"), B), "a b"),
    kept(
        "launches of two processes with one number, and work of another that has none",
        trace(LAUNCH, event("again", 3, pid="8", cat='"cuda_runtime"', args='{"correlation": 11}'), kernel("k", 5, 11)),
        "hipLaunchKernel again k",
        {"chrome.repeated_launch": 1},
    ),
    kept(
        "calls that share a number without any device work",
        trace(LAUNCH, event("again", 3, cat='"cuda_runtime"', args='{"correlation": 11}')),
        "hipLaunchKernel again",
    ),
    kept(
        "work on a stream in a category that no vendor has",
        trace(A, event("b", 3, cat='"strange_kernel"', args='{"stream": 3}')),
        "a b",
        {"chrome.unknown_device_work": 1},
    ),
    kept("a device that is not number 0", trace(LAUNCH, kernel("k", 5, 11)), "hipLaunchKernel k"),
    kept(
        "a kernel that is in the file twice",
        trace(LAUNCH, kernel("k", 5, 11), kernel("k", 5, 11)),
        "hipLaunchKernel k",
        {"chrome.repeated_work": 1},
    ),
    kept(
        "arrows from launches to work that are not in the file either",
        trace(LAUNCH, kernel("k", 5, 11), *(arrow("s", number, 1) for number in (11, 11, 12, 13, 14, 15))),
        "hipLaunchKernel k",
    ),
    kept(
        "an arrow between a launch and its work that were taken out of the file",
        trace(
            LAUNCH,
            event("hipLaunchKernel", 2, cat='"cuda_runtime"', args='{"correlation": 12}'),
            *(arrow("s", number, 1) for number in (11, 12, 13)),
            kernel("k", 5, 11),
            kernel("k", 7, 12),
        ),
        "hipLaunchKernel hipLaunchKernel k k",
        {"chrome.lost_launch": 1},
    ),
    kept("a kernel whose launch is not in the file", trace(A, kernel("k", 5, 12)), "a k", {"chrome.no_launch": 1}),
    kept(
        "the categories of 2021",
        trace(event("a", 1, cat='"Operator"', tid='"1"'), event("k", 5, cat='"Kernel"', pid="0", tid='"stream 7"')),
        "a k",
        {"chrome.no_launch": 1},
    ),
    kept("rows without a category", trace(event("a", 1, cat=None), event("b", 3, cat=None)), "a b"),
    kept(
        "a memory row without its numbers", trace(A, event("[memory]", 2, ph='"i"', dur=None, args="{}")), "a", NO_BYTES
    ),
    kept(
        "a memory row with texts for numbers",
        trace(A, event("[memory]", 2, ph='"i"', dur=None, args='{"Bytes": "x", "Addr": "y"}')),
        "a",
        NO_BYTES | {"chrome.odd_value": 2},
    ),
    kept(
        "a memory row without a time",
        trace(A, event("[memory]", "null", ph='"i"', dur=None, args='{"Bytes": 4}')),
        "a",
        {"chrome.no_time": 1},
    ),
    kept(
        "a memory row 3 years after all others",
        trace(A, event("[memory]", 1e14, ph='"i"', dur=None, args='{"Bytes": 4}')),
        "a",
        {"chrome.stray_time": 1},
    ),
    kept(
        "a wait of a stream for an event that is not named",
        trace(A, waits_for("-1")),
        "a w",
        {"chrome.unknown_wait": 1},
    ),
    kept(
        "a wait of a stream for an event that is recorded later",
        trace(A, waits_for("5"), event("cudaEventRecord", 9, cat='"cuda_runtime"', args='{"correlation": 5}')),
        "a cudaEventRecord w",
        {"chrome.early_wait": 1},
    ),
    kept("a thread's name that is a number", trace(event("thread_name", 0, ph='"M"', args='{"name": 5}'), A), "a"),
    kept("a thread's name without one", trace(event("thread_name", 0, ph='"M"', args=None), A), "a"),
    kept(
        "the steps of two processes",
        trace(
            *(event(f"ProfilerStep#{n}", 1 + 3 * n, 2, cat='"user_annotation"', pid=p) for n in (1, 2) for p in "78")
        ),
        [f"ProfilerStep#{n}" for n in (1, 2)] * 2,
        {"chrome.repeated_step": 2},
    ),
    kept(
        "steps that begin behind their ops, as torch 2.5 writes them with Python calls",
        trace(
            *(event("op", 100 * n + 10, 20) for n in range(3)),
            *(event("train", 100 * n + 40, 20, cat='"python_function"') for n in range(3)),
            *(event(f"ProfilerStep#{n}", 100 * n + 90, 10, cat='"user_annotation"') for n in range(3)),
        ),
        9,
        {"chrome.moved_step": 3},
    ),
    kept("a step without a number", trace(event("ProfilerStep#", 1, cat='"user_annotation"')), ["ProfilerStep#"]),
    kept("a step of too many digits", trace(event("ProfilerStep#99999999999999999999", 1, cat='"user_annotation"')), 1),
    kept(
        "a hundred thousand threads",
        trace(*(AT_ZERO.replace(": 0", f": {number}") for number in range(THREADS))),
        THREADS,
        smallest_block=1 << 16,
    ),
    kept(
        "a thousand events inside one another",
        trace(*(event(f"op{number}", number, 5000 - 2 * number) for number in range(1000))),
        [f"op{number}" for number in range(1000)],
    ),
)

FILES = PAIRS + OVERLAPS + KINDS
