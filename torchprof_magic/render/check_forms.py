"""What a check of limits says: a table of text, Markdown for a review, and JUnit XML for continuous integration."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree as ET

from torchprof_magic.findings.compare.limits_check import Checked, Status, columns_of, status_of
from torchprof_magic.model.units import counted, printable
from torchprof_magic.render.markdown import DATA_NOTE, code, prose, table

_MARKS = {"passed": "✓", "failed": "✗", "unclear": "?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsCheck:
    """Whether a run keeps to its limits.

    Attributes:
        title: What was checked.
        rows: A ``what``, ``limit``, ``found`` and ``status`` for each limit.
        note: What makes a comparison with another run less than fair, and what changed; empty without one.
    """

    title: str
    rows: tuple[Checked, ...]
    note: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """``failed`` if a limit is broken; else ``unclear`` if one cannot be told; else ``passed``."""
        return status_of(self.rows)

    def __str__(self) -> str:
        rows = [("", "What", "Limit", "Found"), *((_MARKS[each.status], *each[:3]) for each in self.rows)]
        return "\n".join([printable(f"{self.title}: {self.sentence}"), *columns_of(rows), *map(printable, self.note)])

    @property
    def sentence(self) -> str:
        """How many limits are kept, broken and unclear."""
        counts = [(status, sum(each.status == status for each in self.rows)) for status in ("failed", "unclear")]
        others = ", ".join(f"{count} {status}" for status, count in counts if count)
        return f"{self.status} ({others} of {counted(len(self.rows), 'limit')})" if others else self.status

    def markdown(self) -> str:
        """Return it as Markdown, such as for the comment of a pull request."""
        rows = [(_MARKS[each.status], *map(prose, each[:3])) for each in self.rows]
        lines = [f"### Profile of {code(self.title)}: {self.sentence}", ""]
        lines += [*table(("", "What", "Limit", "Found"), rows, numbers=range(0))]
        if self.note:
            lines += ["", *(f"- {prose(line)}" for line in self.note)]
        return "\n".join([*lines, "", DATA_NOTE, ""])

    def junit(self) -> str:
        """Return it as JUnit XML: a test case for each limit, ``skipped`` where it is unclear."""
        suite = ET.Element("testsuite", name=printable(self.title), tests=str(len(self.rows)))
        for status, name in (("failed", "failures"), ("unclear", "skipped")):
            suite.set(name, str(sum(each.status == status for each in self.rows)))
        for each in self.rows:
            case = ET.SubElement(
                suite, "testcase", classname="torchprof_magic", name=printable(f"{each.what}, {each.limit}")
            )
            if each.status != "passed":
                kind = "failure" if each.status == "failed" else "skipped"
                message = printable(each.found if kind == "failure" else f"unclear: {each.found}")
                ET.SubElement(case, kind, message=message)
        ET.indent(suite)
        return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
