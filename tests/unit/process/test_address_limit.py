"""Where the addresses of the process are limited (ulimit -v), an error or a message comes instead of an abort."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import chrome, span

LIMIT = """
import os, sys

def limit(*_):
    import resource
    pages = int(open("/proc/self/statm").read().split()[0])
    free = int(float(sys.argv[1]) * 1e6)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + free, resource.RLIM_INFINITY))

import torchprof_magic as tp
"""
LOADING = """
tp.load
limit()
try:
    print("made", tp.load(sys.argv[2]).ops["name"].to_list())
except tp.IngestError as exc:
    print(exc)
"""
IMPORTING = """
import numpy
limit()
try:
    tp.load
    print("made")
except ImportError as exc:
    print(exc)
"""
RECORDING = """
import torch
with tp.profile(wait=0, warmup=0, active=2, on_trace_ready=limit) as p:
    for _ in range(2):
        torch.ones(3).sum()
        p.step()
    mine = "untouched"
print(mine, p.report is not None)
if p.report is None:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("aten::sum" in tp.load(os.environ["TMPDIR"] + "/" + p.failure).ops["name"].to_list()) if 0 else None
"""
LOADED_BEFORE = """
tp.load(sys.argv[2])
limit()
print("made", tp.load(sys.argv[2]).ops["name"].to_list())
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="addresses can be limited on Linux alone")
