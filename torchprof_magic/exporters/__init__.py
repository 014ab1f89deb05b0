"""Files that other tools and people can open."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What each kind of file is called; the longest ending that fits decides.
SUFFIXES = {
    "chrome": (".json", ".json.gz"),
    "speedscope": (".speedscope.json", ".speedscope.json.gz"),
    "collapsed": (".collapsed", ".folded", ".txt"),
    "csv": (".csv", ".csv.gz"),
    "html": (".html", ".htm"),
    "torchprof": (".torchprof",),
}


def choose_format(path: Path, named: str | None) -> str:
    """Return the kind of file to write, as named or else by the end of the path; ``ValueError`` lists the kinds."""
    if named is not None:
        if named in SUFFIXES:
            return named
        raise ValueError(f"no export format {named!r}; choose from {', '.join(SUFFIXES)}")
    endings = [(suffix, kind) for kind, suffixes in SUFFIXES.items() for suffix in suffixes]
    fitting = [(len(suffix), kind) for suffix, kind in endings if path.name.lower().endswith(suffix)]
    if not fitting:
        known = ", ".join(suffix for suffix, _ in endings)
        raise ValueError(f"{path.name!r} does not say what to write; end it in one of {known}, or name a format")
    return max(fitting)[1]
