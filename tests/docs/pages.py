"""The examples of the documentation: runs each page in a notebook's shell, and compares or writes what it prints.

``python tests/docs/pages.py --write`` puts what the examples print now into the pages; without, it says what fails.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from preparations import prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# A block of code on a page, and what it prints, if that stands below it.
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<prints>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
# Invisible on the page: the files that its examples open, as `<!-- files: trace.json.gz=tests/data/x.json.gz -->`.
_FILES = re.compile(r"<!-- files: (.*?) -->", re.DOTALL)


class Example(NamedTuple):
    """One block of Python: its page, its line there, its code, and what it prints, None where the page does not say."""

    page: Path
    line: int
    code: str
    prints: str | None
    at: tuple[int, int]


def pages() -> list[Path]:
    """Return the pages with examples that run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if examples_of(page)]


def examples_of(page: Path) -> list[Example]:
    """Return the blocks of Python of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Example(page, text[: block.start()].count("\n") + 1, block["code"], block["prints"], block.span("prints"))
        for block in _BLOCK.finditer(text)
    ]


def failures_of(page: Path, *, writes: bool = False) -> list[str]:
    """Run the examples of a page, one after the other, and return what went wrong.

    With ``writes``, what they print is put into the page instead of being compared.
    """
    failures, printed = [], []
    with _folder_for(page), prepared(page.relative_to(ROOT).as_posix()) as preparation:
        shell = InteractiveShell(user_ns={"__name__": "__main__"})
        if any("%%torchprof" in example.code for example in examples_of(page)):
            shell.extension_manager.load_extension("torchprof_magic")  # it imports torch
        for code in preparation.codes:
            shell.run_cell(code).raise_error()
        for example in examples_of(page):
            if not preparation.runs(example.code):
                printed.append("")
                continue
            where = f"{page.relative_to(ROOT)}:{example.line}"
            with capture_output(stderr=False, display=False) as output:
                result = shell.run_cell(preparation.changed(example.code), store_history=True)
            printed.append(_printed(output.stdout.replace(str(Path.cwd()), "/home/me")))
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                failures.append(f"{where}: {type(error).__name__}: {error}")
            elif example.prints is not None and not writes and printed[-1] != example.prints:
                known = f"and not\n{example.prints}\n(python tests/docs/pages.py --write puts it into the page)"
                failures.append(f"{where}: it prints\n{printed[-1]}\n{known}")
        shell.history_manager.end_session()
    if writes:
        _write(page, printed)
    return failures


def _printed(text: str) -> str:
    """Return what was printed, with no spaces at the ends of lines, which editors remove."""
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def _write(page: Path, printed: list[str]) -> None:
    text = page.read_text(encoding="utf-8")
    for example, now in reversed(list(zip(examples_of(page), printed, strict=True))):
        if example.prints is not None:
            text = text[: example.at[0]] + now + text[example.at[1] :]
    page.write_text(text, encoding="utf-8")


@contextmanager
def _folder_for(page: Path) -> Iterator[None]:
    """Make a folder with the files of a page the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, source in re.findall(r"(\S+)=(\S+)", " ".join(_FILES.findall(page.read_text(encoding="utf-8")))):
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, target)
            os.utime(target, (1_767_225_600, 1_767_225_600))  # lists of runs show when they were made
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main() -> int:
    """Run all pages, or those that are named, and print what fails."""
    named = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    failures = [
        failure
        for page in pages()
        if not named or page.relative_to(ROOT).as_posix() in named
        for failure in failures_of(page, writes="--write" in sys.argv)
    ]
    print("\n\n".join(failures) or "All examples run.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
