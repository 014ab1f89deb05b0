"""What a path stands for."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.system.files.listing import files_at
from torchprof_magic.system.files.place import place_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_path_is_a_file_a_folder_or_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").write_bytes(b"12345")
    assert [place_of(tmp_path / name).kind for name in ("a[1].json", "gone.json", "*.json", "")] == [
        "file", "file", "pattern", "folder",
    ]  # fmt: skip
    assert [place_of(tmp_path / name).size_bytes for name in ("a[1].json", "gone.json", "*.json")] == [5, None, None]
    assert place_of(f"file://{tmp_path}").kind == "folder"
    assert place_of(f"file://{tmp_path}/a%5B1%5D.json").path == tmp_path / "a[1].json"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("s3://me:pw@bucket/a.json", "remote file"),
        ("https://me:pw@host/a.json?v=*", "remote file"),
        ("s3://me:pw@bucket/runs/", "remote folder"),
        ("s3://me:pw@bucket/*.json", "remote folder"),
        ("simplecache::file:///runs/a.json", "remote file"),
    ],
)
def test_a_url_is_of_a_file_or_of_a_folder_and_shown_without_credentials(url: str, kind: str) -> None:
    place = place_of(url)
    assert (place.kind, place.path, place.is_there) == (kind, None, False)
    assert "pw" not in place.shown + place.name


def test_a_home_directory_that_is_unknown_is_a_flaw_of_the_place() -> None:
    assert place_of("~nobody-has-this-name/a.json").flaw == "cannot resolve this home directory"


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(TypeError, match=r"str or os\.PathLike \(got int\)"):
        place_of(5)


def test_each_file_of_a_folder_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (10, 9):
        (tmp_path / f"rank{number}.json").touch()
    place, asked, look = place_of(tmp_path), [], type(tmp_path).stat
    monkeypatch.setattr(type(tmp_path), "stat", lambda self, **how: asked.append(self.name) or look(self, **how))
    assert [file.name for file in files_at(place)] == ["rank9.json", "rank10.json"]
    assert sorted(name for name in asked if name.endswith(".json")) == ["rank10.json", "rank9.json"]
    with pytest.raises(FrozenInstanceError):
        place.kind = "file"  # type: ignore[misc]
    assert os.fspath(tmp_path) == place.shown
