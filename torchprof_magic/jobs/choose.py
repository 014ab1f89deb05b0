"""Which files are the ranks of one job, and which are missing, doubled, or of another run."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.problems import problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchprof_magic.findings.ranks.frames import RankFrames
    from torchprof_magic.model.meta import Problem

_NAMED = re.compile(r"(?i)(?:^|[^a-z])(?:rank|worker|engine)[ _.=-]?([0-9]{1,7})(?![0-9])")
_SHOWN = 12
_CUT_OFF = ("file.cut_off_gzip", "json.cut_off")
# Times before are counted from the start of a machine, so files of several machines cannot be compared by them.
_LEAST_UNIX_NS = 10**17
_MOST_RANK = 10**6


class Read(NamedTuple):
    """One file that was read."""

    source: str
    file: str
    frames: RankFrames


class Chosen(NamedTuple):
    """The file of each rank, and what was found while choosing them."""

    reads: dict[int, Read]
    problems: list[Problem]


class _Candidate(NamedTuple):
    read: Read
    rank: int
    world_size: int | None
    start_ns: int
    end_ns: int
    events: int

    @property
    def has_time(self) -> bool:
        return self.start_ns >= _LEAST_UNIX_NS


def choose_ranks(reads: Sequence[Read]) -> Chosen:
    """Return one file for each rank of the job that most files belong to; of equals, of the latest."""
    candidates, nameless, problems = _numbered(reads)
    own, strangers = _of_one_run(candidates)
    strangers += nameless
    if strangers:
        problems.append(_told("ranks.other_run", strangers))
    ranks: dict[int, _Candidate] = {}
    doubled = []
    for each in sorted(own, key=lambda one: (one.rank, -one.events)):
        if each.rank in ranks:
            doubled.append(each)
        else:
            ranks[each.rank] = each
    if doubled:
        problems.append(_told("ranks.doubled", doubled))
    cut = [each for each in ranks.values() if _is_cut_off(each.read.frames)]
    if cut:
        problems.append(problem("ranks.unfinished", count=len(cut), ranks=listed(sorted(each.rank for each in cut))))
    return Chosen({rank: each.read for rank, each in sorted(ranks.items())}, problems)


def missing_ranks(ranks: Iterable[int], world_size: int | None) -> list[int]:
    """Return the ranks of the job that have no file; none if its size is not known."""
    return sorted(set(range(min(world_size or 0, _MOST_RANK))) - set(ranks))


def listed(numbers: Sequence[int]) -> str:
    """Return numbers for people, runs of them shortened: ``0, 3-7``; at most a dozen."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}\N{EN DASH}{run[-1]}" for run in runs]
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")


def rank_named(file: str) -> int | None:
    """Return the rank that the name of a file tells, the last one in it."""
    found = _NAMED.findall(file.replace("\\", "/").rpartition("/")[2]) or _NAMED.findall(file)
    return int(found[-1]) if found else None


def _numbered(reads: Sequence[Read]) -> tuple[list[_Candidate], list[_Candidate], list[Problem]]:
    """Return the files with their ranks, as recorded or as their names say, and those without any.

    If no file has one, they are numbered in order.
    """
    told = [_recorded_rank(read) for read in reads]
    told = [rank_named(read.file) if rank is None else rank for rank, read in zip(told, reads, strict=True)]
    if not any(rank is not None for rank in told):
        found = [_candidate(read, number) for number, read in enumerate(reads)]
        return found, [], [problem("ranks.unnumbered", count=len(reads))] if len(reads) > 1 else []
    known = [_candidate(read, rank) for rank, read in zip(told, reads, strict=True) if rank is not None]
    nameless = [_candidate(read, 0) for rank, read in zip(told, reads, strict=True) if rank is None]
    return known, nameless, []


def _recorded_rank(read: Read) -> int | None:
    rank = read.frames.summary["rank"][0]
    return int(rank) if rank is not None and 0 <= rank <= _MOST_RANK else None


def _candidate(read: Read, rank: int) -> _Candidate:
    row = read.frames.summary.row(0, named=True)
    start = row["start_unix_ns"]
    return _Candidate(
        read, rank, row["world_size"], start + row["window_start_ns"], start + row["window_end_ns"], row["events"]
    )


def _of_one_run(candidates: list[_Candidate]) -> tuple[list[_Candidate], list[_Candidate]]:
    """Return the files of the run that has the most ranks, of equals the latest, and those of others.

    Files are of one run if they were recorded at the same time, in jobs of one size. A rank whose clock is wrong is of
    the run, too, if no other file of it is there and it took part in the same collectives.
    """
    sizes = Counter(each.world_size for each in candidates if each.world_size)
    timed = sorted((each for each in candidates if each.has_time), key=lambda each: each.start_ns)
    clusters: list[list[_Candidate]] = []
    reach = 0
    for each in timed:
        if clusters and each.start_ns <= reach:
            clusters[-1].append(each)
        else:
            clusters.append([each])
        reach = max(reach, each.end_ns)
    best = max(clusters, key=lambda cluster: (len({one.rank for one in cluster}), cluster[0].start_ns), default=[])
    world = Counter(each.world_size for each in best if each.world_size) or sizes
    size = world.most_common(1)[0][0] if world else None
    own = [each for each in (*best, *(one for one in candidates if not one.has_time)) if _fits(each, size)]
    ranks = {each.rank for each in own}
    kept = {id(each) for each in own}
    kept |= {
        id(each)
        for each in candidates
        if own and each.rank not in ranks and _fits(each, size) and _is_alike(each, own[0])
    }
    return [each for each in candidates if id(each) in kept], [each for each in candidates if id(each) not in kept]


def _fits(each: _Candidate, size: int | None) -> bool:
    return each.world_size is None or size is None or each.world_size == size


def _is_alike(one: _Candidate, other: _Candidate) -> bool:
    """Return whether two files recorded the same steps and collectives."""
    mine, theirs = one.read.frames, other.read.frames
    steps = [frames.summary.select("first_step", "last_step").row(0) for frames in (mine, theirs)]
    names = [frames.collectives["name"].to_list() for frames in (mine, theirs)]
    return steps[0] == steps[1] and names[0] == names[1] and bool(names[0])


def _is_cut_off(frames: RankFrames) -> bool:
    return bool(frames.problems["code"].is_in(_CUT_OFF).any())


def _told(code: str, found: Sequence[_Candidate]) -> Problem:
    names = [each.read.file for each in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return problem(code, count=len(found), files=", ".join(names) + more)
