"""The gate of docs/questions/does-it-stay-fast.md, on two commits of a small project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from amount import thorough

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "questions" / "does-it-stay-fast.md").read_text(encoding="utf-8")
TRAIN = """\
import torch

weight = torch.ones(256, 256)


def batches():
    return [torch.ones(256, 256)] * {batches}


def train(batch):
    for _ in range({products}):
        batch = (batch @ weight).relu() / 256
"""
BASE = {"batches": 16, "products": 20}
# The next commit, what the script says of it, its exit status, and what the XML has of the limit. Of a run of three
# steps nobody can tell whether it is slower.
COMMITS = [
    ({"products": 60}, "The step became slower.", 1, "failure"),
    ({}, "The step is as fast as before.", 0, None),
    ({"batches": 3}, "It may have become slower", 3, "skipped"),
]
TRIES = 3
GIT, SHELL = shutil.which("git") or "git", shutil.which("sh") or "sh"


def block(language: str) -> str:
    """Return the only code of a language on the page."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def commit(project: Path, message: str) -> None:
    git = [GIT, "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for command in (["add", "."], ["commit", "--quiet", "--no-verify", "-m", message]):
        subprocess.run([*git, *command], cwd=project, check=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with one commit, and the two files of the page."""
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run([GIT, "init", "--quiet"], cwd=folder, check=True)
    (folder / "profile_step.py").write_text(block("python"), encoding="utf-8")
    (folder / "ci.sh").write_text(block("sh"), encoding="utf-8")
    (folder / "train.py").write_text(TRAIN.format(**BASE), encoding="utf-8")
    commit(folder, "Train")
    return folder


@thorough  # tests/unit/test_check.py has the same answers without two commits
@pytest.mark.parametrize(("change", "says", "status", "tag"), COMMITS)
def test_the_next_commit_passes_fails_or_is_unclear(
    project: Path, change: dict[str, int], says: str, status: int, tag: str | None
) -> None:
    (project / "train.py").write_text(TRAIN.format(**BASE | change) + "# changed\n", encoding="utf-8")
    commit(project, "Change the step")
    # On a busy machine equal steps can differ by more than the limit: that is unclear, and is run again.
    run = next((run for run in map(checked, [project] * TRIES) if run.returncode == status), None) or checked(project)
    assert run.returncode == status, run.stdout + run.stderr
    assert says in run.stdout
    assert "step against baseline" in run.stdout
    assert "Traceback" not in run.stderr
    case = ET.parse(project / "profile.xml").getroot().find("testcase")  # noqa: S314 - it is our own
    assert case is not None
    assert [child.tag for child in case] == ([] if tag is None else [tag])
    assert (project / "profile.md").read_text(encoding="utf-8").startswith("### Profile of `new.torchprof`: ")
    assert not (project / "base").exists()


def checked(project: Path) -> subprocess.CompletedProcess[str]:
    """Run the script as a step of continuous integration."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = [SHELL, "ci.sh"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
