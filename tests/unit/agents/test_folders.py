"""Paths that a client gives, and how they may lead out of the allowed folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support import chrome, span

from torchprof_magic.agents import open_runs
from torchprof_magic.agents.errors import ToolError
from torchprof_magic.agents.folders import Folders
from torchprof_magic.agents.open_runs import OpenRuns
from torchprof_magic.model.errors import OptionsError

if TYPE_CHECKING:
    from pathlib import Path

SMALL = chrome(span("aten::mm", 0, 30))


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    """Return an allowed folder with a trace, beside a secret one."""
    for folder in ("allowed/inner", "allowed-too", "secret"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "small.json").write_bytes(SMALL)
    return tmp_path / "allowed"


def test_a_path_is_found_in_the_folder_whether_it_is_absolute_or_not(allowed: Path) -> None:
    folders = Folders([allowed])
    file = allowed / "inner" / "small.json"
    assert folders.find("inner/small.json") == file
    assert folders.find("./inner/../inner/small.json") == file
    assert folders.find(str(file)) == file
    assert folders.find("inner") == file.parent


def test_a_path_is_looked_for_in_every_folder(allowed: Path) -> None:
    folders = Folders([allowed, allowed.parent / "allowed-too"])
    assert folders.find("small.json") == allowed.parent / "allowed-too" / "small.json"


@pytest.mark.parametrize(
    "path",
    [
        "../secret/small.json",
        "inner/../../secret/small.json",
        "../allowed-too/small.json",
        "{outside}/secret/small.json",
        "{outside}/allowed/../secret/small.json",
        "..",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "../secret/nothing.json",
        "nothing.json",
        "~/small.json",
        "~root/small.json",
        "",
        "\0",
        "inner/small.json\0.txt",
        "file:///etc/passwd",
        "https://evil.example/a.json",
        "s3://bucket/a.json",
        "*.json",
        "inner/*.json",
        "x" * 5_000,
        "a/" * 2_000,
        "C:\\Windows\\win.ini",
        "\\\\evil.example\\share\\a.json",
        "C:small.json",
        "CON",
        "\ud800",
        "ünknown/\u202e.json",
    ],
)
def test_what_is_elsewhere_or_nowhere_is_refused_in_the_same_words(allowed: Path, path: str) -> None:
    with pytest.raises(ToolError, match=r"is not in the folders|is no path of a file") as error:
        Folders([allowed]).find(path.format(outside=allowed.parent))
    assert len(str(error.value)) < 1_000
    assert str(error.value).isprintable()


def test_links_are_followed_before_a_path_is_allowed(allowed: Path) -> None:
    secret = allowed.parent / "secret"
    (allowed / "file.json").symlink_to(secret / "small.json")
    (allowed / "folder").symlink_to(secret)
    (allowed / "up").symlink_to("..")
    (allowed / "round").symlink_to("round")
    (allowed / "inside.json").symlink_to(allowed / "inner" / "small.json")
    folders = Folders([allowed])
    for path in ("file.json", "folder/small.json", "up/secret/small.json", "round", "round/x.json"):
        with pytest.raises(ToolError, match="is not in the folders"):
            folders.find(path)
    assert folders.find("inside.json") == allowed / "inner" / "small.json"


def test_a_folder_that_is_a_link_itself_is_allowed_where_it_led_at_the_start(allowed: Path) -> None:
    link = allowed.parent / "link"
    link.symlink_to(allowed)
    folders = Folders([link])
    assert folders.find("inner/small.json") == allowed / "inner" / "small.json"
    assert folders.find(str(link / "inner" / "small.json")) == allowed / "inner" / "small.json"
    link.unlink()
    link.symlink_to(allowed.parent / "secret")
    with pytest.raises(ToolError, match="is not in the folders"):
        folders.find(str(link / "small.json"))


def test_another_folder_in_the_place_of_an_allowed_one_is_not_allowed(allowed: Path) -> None:
    folders = Folders([allowed])
    allowed.rename(allowed.parent / "moved")
    (allowed.parent / "secret").rename(allowed)
    with pytest.raises(ToolError, match="is not in the folders"):
        folders.find("small.json")


def test_letters_in_another_case_are_the_same_folder_only_where_the_system_says_so(allowed: Path) -> None:
    other = allowed.parent / "ALLOWED" / "inner" / "small.json"
    folders = Folders([allowed])
    if other.exists():
        assert folders.find(str(other)).samefile(allowed / "inner" / "small.json")
    else:
        other.parent.mkdir(parents=True)
        other.write_bytes(SMALL)
        with pytest.raises(ToolError, match="is not in the folders"):
            folders.find(str(other))


def test_only_folders_that_are_there_can_be_allowed(allowed: Path) -> None:
    with pytest.raises(OptionsError, match="there is no such folder"):
        Folders([allowed / "nothing"])
    with pytest.raises(OptionsError, match="this is not a folder"):
        Folders([allowed / "inner" / "small.json"])


def test_files_are_listed_the_newest_first_without_hidden_ones_and_links(allowed: Path) -> None:
    for name, at_s in (("old.json", 10), ("new.torchprof", 30), (".hidden.json", 20), ("notes.txt", 20)):
        (allowed / name).write_bytes(SMALL)
        os.utime(allowed / name, (at_s, at_s))
    os.utime(allowed / "inner" / "small.json", (20, 20))
    (allowed / "link.json").symlink_to(allowed / "old.json")
    (allowed / "secret").symlink_to(allowed.parent / "secret")
    found = Folders([allowed]).files((".json", ".torchprof"))
    assert [file.name for file in found] == ["new.torchprof", "small.json", "old.json"]


def test_a_file_that_changed_is_read_again(allowed: Path) -> None:
    file = allowed / "small.json"
    file.write_bytes(SMALL)
    runs = OpenRuns(Folders([allowed]))
    first = runs.report("small.json")
    assert runs.report("small.json") is first
    file.write_bytes(chrome(span("aten::mm", 0, 30), span("aten::add", 40, 60)))
    assert runs.recording("small.json").ops["name"].to_list() == ["aten::add", "aten::mm"]


@pytest.mark.parametrize("swap", ["link", "other file", "gone"])
def test_a_file_that_is_swapped_while_it_is_read_gives_no_answer(
    allowed: Path, swap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = allowed / "inner" / "small.json"
    read = open_runs.open_report

    def swapped(*given: object) -> object:
        file.unlink()
        if swap == "link":
            file.symlink_to(allowed.parent / "secret" / "small.json")
        elif swap == "other file":
            file.write_bytes(SMALL + b"\n")
        return read(*given) if swap != "gone" else None  # type: ignore[arg-type]

    monkeypatch.setattr(open_runs, "open_report", swapped)
    with pytest.raises(ToolError, match=r"changed while it was read|was moved or replaced|is gone"):
        OpenRuns(Folders([allowed])).report("inner/small.json")


def test_ranks_behind_a_link_that_leads_out_are_left_alone(allowed: Path) -> None:
    (allowed / "inner" / "rank1.json").symlink_to(allowed.parent / "secret" / "small.json")
    runs = OpenRuns(Folders([allowed]))
    assert runs.report("inner").ranks.height == 1
    (allowed / "inner" / "small.json").unlink()
    with pytest.raises(ToolError, match="no trace file in this folder may be read"):
        runs.report("inner")


def test_a_pipe_is_not_waited_for(allowed: Path) -> None:
    os.mkfifo(allowed / "pipe.json")
    with pytest.raises(ToolError, match="device or pipe"):
        OpenRuns(Folders([allowed])).report("pipe.json")
