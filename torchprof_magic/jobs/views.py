"""What a report of many ranks has, one row each: its tables in Python and the tabs of its page, in display order."""

from __future__ import annotations

from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING

from torchprof_magic.findings.ranks import job, path, shown, stragglers
from torchprof_magic.render.view import View, tables
from torchprof_magic.render.view import shown as shown_views

if TYPE_CHECKING:
    from torchprof_magic.findings.ranks.job import Job

VIEWS: tuple[View[Job], ...] = (
    View(
        name="ranks",
        sentence="One row per rank: the mean of its steps, divided by what its device or thread did; its waiting; its "
        "clock.",
        details="`compute_ns`, `exposed_comm_ns`, `copy_ns` and `idle_ns` add up to `step_ns`. `wait_ns` is what the "
        "rank waits for others, and `caused_wait_ns` what all others wait for it. Below the rows, the page has the "
        "waiting in the collectives with the most of it.",
        columns=job.RANK_COLUMNS,
        frame=attrgetter("ranks"),
        build=shown.ranks_view,
        title="Ranks",
        empty="No rank could be read.",
        is_counted=True,
        group="Ranks",
    ),
    View(
        name="collectives",
        sentence="One row per collective that several ranks share, in order of time: who came last, and its cost.",
        details="`skew_ns` is how much later the last rank came than the first, and `wait_ns` what all ranks waited "
        "together: their lengths, each less the shortest. `bytes` and the speeds, `bytes_per_s` and "
        "`bus_bytes_per_s`, are null if not recorded.",
        columns=job.COLLECTIVE_COLUMNS,
        frame=attrgetter("collectives"),
        build=shown.collectives_view,
        title="Collectives",
        empty="The ranks share no collective.",
        is_counted=True,
    ),
    View(
        name="stragglers",
        sentence="One row per rank for which the others wait noticeably, the most costly first, and what it does "
        "meanwhile.",
        details="The others wait at least 1 % of a step each, and a tenth of all waiting. `cause`, `name`, `file`, "
        "`line` and `source` say what it does more of than the others while no collective runs, from its own waits, "
        "idle times, lines and kernels. Empty if no rank is late.",
        columns=stragglers.COLUMNS,
        frame=attrgetter("stragglers"),
        build=shown.stragglers_view,
        title="Stragglers",
        empty="No rank keeps the others waiting noticeably.",
        is_counted=True,
    ),
    View(
        name="critical_path",
        sentence="What each step of the job waits for, in order, through the ranks by their collectives.",
        details="It ends with the rank that ends the step last. Where that waited in a collective for others, the path "
        "goes on with the one that came last to it, so that what makes a rank late is on it. Only steps that count on "
        "all ranks have one. `report.rank(n).critical_path` has each event of a rank. The files of all ranks are read "
        "again for it, which raises `IngestError` where one is gone.",
        columns=path.COLUMNS,
        frame=methodcaller("critical_path"),
    ),
    View(
        name=shown.WAITS_VIEW,
        table="arrivals",
        sentence="One row per collective and rank: when it came, on the common clock, how long it waited, and who was "
        "last.",
        columns=job.ARRIVAL_COLUMNS,
        frame=attrgetter("arrivals"),
        build=shown.waits_view,
        title="Waiting",
        empty="The ranks share no collective.",
        place="strip",
    ),
    View(
        name="timeline",
        sentence="The steps, collectives and computation of all ranks, on the common clock.",
        build=shown.timeline_view,
        title="Timeline",
        empty="There is too much for one picture. A rank's own report has its timeline.",
    ),
    View(
        name="notes",
        sentence="`ranks.problems`: the problems of the job, and of the files of its ranks.",
        build=shown.problems_view,
        title="Notes",
        empty="No problems were found.",
        is_counted=True,
    ),
)
TABS = shown_views(VIEWS)
TABLES = tables(VIEWS)
