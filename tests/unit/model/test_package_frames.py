from __future__ import annotations

import re
from pathlib import Path

import torchprof_magic
from torchprof_magic.model.own_frames import OWN_FRAME

PACKAGE = Path(torchprof_magic.__file__).parent


def test_every_file_of_the_package_is_known_as_its_own() -> None:
    files = [path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py")]
    assert len(files) > 400
    unknown = [str(file) for file in files if not re.search(OWN_FRAME, f"site-packages/{file}(7): f")]
    assert unknown == []
    on_windows = str(files[0]).replace("/", "\\")
    assert re.search(OWN_FRAME, f"C:\\site-packages\\{on_windows}(7): f")


def test_a_users_file_in_a_folder_of_the_packages_name_is_the_users() -> None:
    for file in ("torchprof_magic/train.py", "torchprof_magic/models/net.py", "my_torchprof_magic/run/loop.py"):
        assert not re.search(OWN_FRAME, f"/home/me/{file}(7): f")
