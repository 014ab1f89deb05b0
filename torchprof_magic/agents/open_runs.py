"""The runs that a client asks about: found by path, name or number, and kept open for the next question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from torchprof_magic.agents.errors import ToolError
from torchprof_magic.agents.folders import identity_of
from torchprof_magic.ingest import READERS
from torchprof_magic.jobs.load import load_ranks
from torchprof_magic.jobs.report import RanksReport
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.units import printable
from torchprof_magic.render.markdown import code
from torchprof_magic.report.opening import open_kept, open_report
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs.known import known_runs
from torchprof_magic.runs.run_library import RunLibrary
from torchprof_magic.system.files.listing import files_at
from torchprof_magic.system.files.place import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchprof_magic.agents.folders import Folders, Identity

AnyReport: TypeAlias = Report | RanksReport
# Each holds a whole recording.
MOST_OPEN = 4
MOST_LISTED = 50
# Files in a folder that is opened as the ranks of one job.
MOST_RANKS = 256
_NUMBER = re.compile(r"#([0-9]{1,4})")
# From the first to the last quotation mark, because what is quoted may have some.
_QUOTED = re.compile(r'".*"', re.DOTALL)
_ENDINGS = tuple({ending for reader in READERS for ending in reader.endings} - {".html", ".log"})


class Listed(NamedTuple):
    """A run in the list: ``source`` opens it, and ``step_ns`` is its typical step, None where that is not known yet."""

    source: Path | str
    title: str
    unix_s: float
    step_ns: float | None


@dataclass(slots=True)
class _Open:
    """An open report, with the state in which its files were read; of a kept run there is none."""

    report: AnyReport
    files: dict[Path, Identity]


class OpenRuns:
    """Runs of some folders and of the library of kept runs. The last few stay open."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._open: dict[Path | str, _Open] = {}
        self._listed: list[Listed] = []

    def listed(self) -> list[Listed]:
        """Return the kept runs and the files in the folders, the newest first; ``#1`` then opens the first of them."""
        kept = [Listed(run.title, run.title, run.unix_s, run.step_ns) for run in known_runs() if run.home == "library"]
        files = self.folders.files(_ENDINGS)[:MOST_LISTED]
        found = [*kept, *(Listed(file, self.folders.name_of(file), file.stat().st_mtime, None) for file in files)]
        self._listed = sorted(found, key=lambda run: run.unix_s, reverse=True)[:MOST_LISTED]
        return list(self._listed)

    def report(self, run: str) -> AnyReport:
        """Return the report of a file, a folder of ranks, a kept run, or a number of the list, such as ``#3``.

        A file that has changed since it was read is read again. Raises ``ToolError`` or ``StoreError``.
        """
        source = self._source(run)
        files = self._files(source)
        known = self._open.pop(source, None)
        try:
            found = known if known is not None and known.files == files else _Open(self._read(source, files), files)
        except IngestError as exc:
            raise ToolError(_without_data(str(exc), files)) from exc
        if self._files(source) != files:
            raise ToolError(f"{run!r} changed while it was read; ask again")
        self._open[source] = found
        while len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]
        return found.report

    def recording(self, run: str) -> Report:
        """Return the report of one recording; raises ``ToolError`` for that of many ranks."""
        report = self.report(run)
        if isinstance(report, RanksReport):
            raise ToolError(f"{run!r} is a folder of many ranks; ask about the file of one of them")
        return report

    def _source(self, run: str) -> Path | str:
        number = _NUMBER.fullmatch(run)
        if number is not None:
            at = int(number[1])
            if not 1 <= at <= len(self._listed):
                raise ToolError(f"no run {run} was listed; list_runs lists what there is")
            listed = self._listed[at - 1].source
            return listed if isinstance(listed, str) else self.folders.find(str(listed))
        try:
            return self.folders.find(run)
        except ToolError as exc:
            if run in {each.name for each in RunLibrary().runs()}:
                return run
            raise ToolError(f"{exc}; nor is it the name of a kept run") from None

    def _files(self, source: Path | str) -> dict[Path, Identity]:
        """Return the files of a run with their states; those of a folder that lead out of it are left alone."""
        if isinstance(source, str):
            path = RunLibrary().path_of(source)
            return {path: identity_of(path)}
        if not source.is_dir():
            return {source: self.folders.identity(source)}
        try:
            paths = [file.path for file in files_at(place_of(source)) if file.path is not None]
        except IngestError:
            paths = []
        inside = [path for path in paths if path.resolve() == path and self.folders.holds(path)]
        if not inside:
            raise ToolError("no trace file in this folder may be read")
        if len(inside) > MOST_RANKS:
            raise ToolError(
                f"this folder has {len(inside)} trace files, and at most {MOST_RANKS} are read as the ranks of one "
                "job; ask about one file"
            )
        return {path: self.folders.identity(path) for path in inside}

    @staticmethod
    def _read(source: Path | str, files: dict[Path, Identity]) -> AnyReport:
        if isinstance(source, str):
            return open_kept(source)
        if source.is_dir():
            return load_ranks([str(path) for path in files])
        return open_report(place_of(source))


def _without_data(message: str, files: Iterable[Path]) -> str:
    """Return why a file cannot be read, with names of files as code, and without what is quoted from them."""
    for path in files:
        for name in (str(path), path.name):
            message = message.replace(printable(name), "\0")
        message = message.replace("\0", code(path.name))
    return _QUOTED.sub("…", message)
