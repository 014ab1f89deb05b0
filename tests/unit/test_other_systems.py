"""The package can be imported, read traces and write files where what only POSIX systems have is missing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forking import forked_python

UNIT = Path(__file__).parent
PREPARE = r"""
import importlib, os, pkgutil, signal, sys

sys.path[:0] = sys.argv[2:]
import torchprof_magic

def names():
    found = pkgutil.walk_packages(torchprof_magic.__path__, "torchprof_magic.")
    left_out = (".__main__", ".pytest_plugin", "_locks", "_callback", "_handler")  # the last two need other libraries
    return sorted(one.name for one in found if not one.name.endswith(left_out))

for name in names():  # so that all other packages are there, as this system has them
    importlib.import_module(name)
import torchprof_magic as tp, torch
with tp.profile() as run:
    torch.ones(3).sum()
run.report.save(sys.argv[1] + "/before.torchprof")  # this imports what is imported late

POSIX = "fcntl resource pwd grp termios tty pty syslog crypt spwd nis readline curses posix_ipc".split()
for name in POSIX:
    sys.modules[name] = None
LACKING = '''fork forkpty register_at_fork getuid geteuid getgid getegid getpgid setsid getgroups uname pread pwrite
    sched_getaffinity sched_setaffinity fchmod fchown chown lchown mkfifo mknod killpg wait3 wait4 getloadavg
    O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECTORY O_SYNC O_NOCTTY posix_fadvise sync'''.split()
for name in LACKING:
    if hasattr(os, name):
        delattr(os, name)
for name in "SIGALRM SIGUSR1 SIGUSR2 SIGHUP SIGKILL SIGQUIT SIGCHLD SIGPIPE pthread_sigmask setitimer alarm".split():
    if hasattr(signal, name):
        delattr(signal, name)
os.O_BINARY = 0
from windows import FakeMsvcrt
sys.modules["msvcrt"] = FakeMsvcrt()
sys.platform = "win32"
for name in [one for one in sys.modules if one.partition(".")[0] == "torchprof_magic"]:
    del sys.modules[name]
import torchprof_magic
for name in names():
    importlib.import_module(name)
print("imported", len(names()))
"""
READ = r"""
import torchprof_magic as tp
report = tp.load(sys.argv[1] + "/before.torchprof")
report.save(sys.argv[1] + "/after.torchprof")
report.export(sys.argv[1] + "/after.json.gz")
report.to_html(sys.argv[1] + "/after.html")
again = tp.load(sys.argv[1] + "/after.json.gz")
print("read", again.trace.events.height == report.trace.events.height > 0, sorted(os.listdir(sys.argv[1])))
"""
RECORD = r"""
with tp.profile(profile_memory=True, trace_dir=sys.argv[1] + "/kept", gzip=True) as run:
    for _ in run.steps(range(5)):
        torch.ones(3).sum()
print("recorded", run.report.steps.height, len(run.report.saved_traces), [p.code for p in run.report.problems])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux has is hidden here")
def test_everything_works_without_what_only_posix_has(tmp_path: Path) -> None:
    run = subprocess.run(
        forked_python(*("-W", "ignore", "-c", PREPARE + READ + RECORD), str(tmp_path), str(UNIT / "system" / "files")),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path / "state")},
    )
    assert run.returncode == 0, run.stderr
    imported, read, recorded = run.stdout.splitlines()[-3:]
    assert imported.startswith("imported ")
    assert read.startswith("read True ['after.html', 'after.json.gz', 'after.torchprof', 'before.torchprof'")
    assert recorded == "recorded 3 1 []"


def test_every_text_file_is_opened_with_its_encoding() -> None:
    texts = {path.name: path.read_text("utf-8") for path in (UNIT.parents[1] / "torchprof_magic").rglob("*.py")}
    calls = [
        (name, node)
        for name, text in texts.items()
        if "open(" in text or "read_text(" in text  # the others need not be parsed
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]
    assert [f"{name}:{call.lineno}" for name, call in calls if _lacks_encoding(call)] == []


def _lacks_encoding(call: ast.Call) -> bool:
    """Return whether a call opens a file as text in the encoding of the system."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    has_encoding = any(keyword.arg == "encoding" for keyword in call.keywords)
    if name == "read_text":
        return not has_encoding and not texts
    modes = [text for text in texts if set(text) <= set("rwabx+t")]
    return name == "open" and bool(modes) and "b" not in modes[-1] and not has_encoding
