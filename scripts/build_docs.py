"""Build the site of docs/ in build/docs, and check that it needs nothing from elsewhere.

Sphinx checks the links between pages and to their headings, and refuses to build with one that leads nowhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "docs"
# What a browser loads by itself: scripts, styles, fonts and pictures.
_LOADS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)"|url\(["']?([^)"']+)"""
)
_ELSEWHERE = ("http:", "https:", "//")


def main() -> int:
    """Build the site, and print where it is; arguments are passed on to Sphinx."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", *sys.argv[1:]]
    status = subprocess.run([*command, str(ROOT / "docs"), str(SITE)], check=False).returncode
    if status:
        return status
    for loaded in loaded_from_elsewhere(SITE):
        print(loaded, file=sys.stderr)
        status = 1
    print(f"The site is {SITE / 'index.html'}")
    return status


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and styles of a site would load from other servers, each with its file."""
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    return [
        f"{path.relative_to(site)} loads {address}"
        for path in files
        for found in _LOADS.findall(path.read_text(encoding="utf-8"))
        for address in found
        if address.startswith(_ELSEWHERE)
    ]


if __name__ == "__main__":
    sys.exit(main())
