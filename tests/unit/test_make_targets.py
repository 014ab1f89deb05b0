"""Each script that the Makefile runs finds what it imports; most run for minutes, so tests start none of them whole."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from amount import sampled
from forking import forked_python

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(set(re.findall(r"\$\(BIN\)/python ([\w/]+\.py)", (ROOT / "Makefile").read_text())))
# Each script is imported in a fork of one process, which has imported what is slow.
IMPORT_ALL = """
import os, runpy, sys, traceback
sys.modules["rfc3987_syntax"] = None  # the grammars of addresses, which jsonschema compiles for seconds
import jupyter_client, nbclient, torch, torchprof_magic.report

sys.path[0] = ""
for script in sys.argv[1:]:
    if (child := os.fork()) == 0:
        sys.path[0] = os.path.dirname(script)
        try:
            runpy.run_path(script, run_name="imported")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(script, os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_every_script_of_a_make_target_finds_what_it_imports() -> None:
    assert len(SCRIPTS) >= 20
    tried = [str(ROOT / script) for script in sampled(SCRIPTS, 6)]
    # Without the folders of tests that pytest adds to the path.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        forked_python("-c", IMPORT_ALL, *tried),
        cwd=ROOT, env=clean, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    codes = dict(line.rsplit(" ", 1) for line in ran.stdout.splitlines())
    assert codes == dict.fromkeys(tried, "0"), ran.stderr
