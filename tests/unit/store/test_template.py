from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from torchprof_magic.errors import OptionsError
from torchprof_magic.store.template import FIELDS, TraceValues, parse_filename, parse_folder, rank_flaw, rank_values

VALUES = TraceValues(
    run_name="resnet",
    rank=3,
    local_rank=1,
    world_size=8,
    local_world_size=2,
    node_rank=1,
    step=120,
    cycle=2,
    epoch=4,
    batch=20,
    pid=77,
    timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
    cell=9,
)


def test_every_documented_field_can_be_used() -> None:
    template = parse_filename("_".join(f"{{{name}}}" for name in FIELDS) + ".json")
    assert template.fields == set(FIELDS)
    assert str(template.format(VALUES)) == "resnet_3_1_8_2_1_120_2_4_20_77_20260102-030405_9.json"


def test_numbers_are_padded_with_zeros() -> None:
    assert str(parse_filename("{step:06d}-{rank:01d}.json").format(VALUES)) == "000120-3.json"


def test_the_timestamp_is_in_utc_wherever_it_was_taken() -> None:
    there = VALUES.timestamp.astimezone(timezone(timedelta(hours=9)))
    assert str(parse_filename("{timestamp}").format(replace(VALUES, timestamp=there))) == "20260102-030405"


def test_plain_text_is_a_template_too() -> None:
    assert str(parse_filename("Über alles.json").format(VALUES)) == "Über alles.json"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{rnk}.json", "no field {rnk}; choose from run_name, rank"),
        ("{host}.json", "no field {host}"),
        ("{}.json", "no field {}"),
        ("{0}.json", "no field {0}"),
        ("{rank.__class__}", "attributes and indexes"),
        ("{run_name[0]}", "attributes and indexes"),
        ("{rank!r}", "conversions"),
        ("{step:>999999999}", "padded with zeros"),
        ("{step:0999999999d}", "padded with zeros"),
        ("{step:099d}", "20 digits at most"),
        ("{step:4d}", "padded with zeros"),
        ("{step:04x}", "padded with zeros"),
        ("{step:{rank}}", "nested"),
        ("{run_name:04d}", "no number"),
        ("{timestamp:04d}", "no number"),
        ("{{rank}}", "nested or doubled"),
        ("{rank", "no } after it"),
        ("rank}", "no { before it"),
        ("", "empty"),
        ("/etc/trace.json", "more than a name"),
        ("a/b.json", "folders belong into --trace-dir"),
        ("..", "another folder"),
        (".", "end in a dot"),
        ("a\0b", "'\\x00'"),
        ("a\nb", "'\\n'"),
        ("a\u202eb", "'\\u202e'"),
        ("a\udc80b", "'\\udc80'"),
        ("a:b", "':'"),
        ("a\\b", "'\\\\'"),
        ("what?", "'?'"),
        ("name ", "end in a dot or a space"),
        ("name.", "end in a dot or a space"),
        ("nul.json", "device"),
        ("é" * 128, "255 bytes at most (got 256)"),
        (".torchprof-store.json", "kept for the store itself"),
    ],
)
def test_a_bad_filename_is_refused_before_the_run(text: str, reason: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse_filename(text)
    assert str(caught.value).startswith("--filename")
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["../traces", "a/../b", "", "a\0b", "traces/" + "x" * 256, "{step}", "{a.b}", "a?"])
def test_a_bad_folder_is_refused_before_the_run(text: str) -> None:
    with pytest.raises(OptionsError, match=r"^--trace-dir"):
        parse_folder(text)


def test_an_address_is_no_folder_and_is_not_repeated() -> None:
    with pytest.raises(OptionsError, match="--remote") as caught:
        parse_folder("s3://user:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)


def test_a_folder_may_be_absolute_or_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse_folder("/data/{run_name}/rank{rank:02d}").format(VALUES) == Path("/data/resnet/rank03")
    assert parse_folder("~/traces").format(VALUES) == Path("/home/someone/traces")
    assert parse_folder("traces/./x").format(VALUES) == Path("traces/x")


def test_a_home_that_nobody_knows_is_refused() -> None:
    with pytest.raises(OptionsError, match="home folder"):
        parse_folder("~no-such-user-here/traces")


@pytest.mark.parametrize("name", ["a/b", "..", "a..b", ".", "", "~root", "a\\b", "a\0b", "a:b"])
def test_the_name_of_a_run_cannot_lead_elsewhere(name: str) -> None:
    for template in (parse_filename("{run_name}.json"), parse_folder("{run_name}/traces")):
        with pytest.raises(OptionsError, match="run_name"):
            template.format(replace(VALUES, run_name=name))


def test_a_name_that_gets_too_long_by_its_values_is_refused() -> None:
    with pytest.raises(OptionsError, match="255 bytes"):
        parse_filename("{run_name}{run_name}.json").format(replace(VALUES, run_name="x" * 130))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trace.json", "trace-rank{rank}-cycle{cycle}.json"),
        ("trace.pt.trace.json.gz", "trace-rank{rank}-cycle{cycle}.pt.trace.json.gz"),
        ("trace", "trace-rank{rank}-cycle{cycle}"),
        ("{cycle}.json", "{cycle}-rank{rank}.json"),
        ("{step}-{rank}.json", "{step}-{rank}.json"),
        ("{local_rank}.json", "{local_rank}-rank{rank}-cycle{cycle}.json"),
        ("{node_rank}-{local_rank}-{cycle}.json", "{node_rank}-{local_rank}-{cycle}.json"),
    ],
)
def test_two_traces_never_get_one_name(text: str, expected: str) -> None:
    assert parse_filename(text).told_apart(cycles=2, world_size=4).text == expected


def test_one_trace_keeps_the_name_that_was_asked_for() -> None:
    template = parse_filename("trace.json")
    assert template.told_apart(cycles=1, world_size=1) is template
    assert template.told_apart(cycles=None, world_size=1).text == "trace-cycle{cycle}.json"


def test_ranks_come_from_the_environment() -> None:
    environ = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"}
    values = rank_values(environ)
    assert (values.rank, values.local_rank, values.world_size, values.local_world_size) == (5, 1, 8, 4)
    assert values.node_rank == 1
    assert rank_values({**environ, "NODE_RANK": "0"}).node_rank == 0


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "9" * 5000, "٣", "0x1"])
def test_a_rank_that_is_no_number_counts_as_rank_0_of_1(text: str) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")
    values = rank_values(dict.fromkeys(names, text))
    assert (values.rank, values.local_rank, values.node_rank) == (0, 0, 0)
    assert (values.world_size, values.local_world_size) == (1, 1)


@pytest.mark.parametrize(
    ("environ", "flaw"),
    [
        ({}, ""),
        ({"RANK": "0"}, ""),
        ({"RANK": " 1 ", "WORLD_SIZE": "2"}, ""),
        ({"WORLD_SIZE": "1"}, ""),
        ({"WORLD_SIZE": "2"}, "RANK is not set, although WORLD_SIZE is 2"),
        ({"RANK": "", "WORLD_SIZE": "4"}, "RANK is not set, although WORLD_SIZE is 4"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is '2', and WORLD_SIZE is 2"),
        ({"RANK": "3"}, "RANK is '3', and WORLD_SIZE is 1"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK is '-1', and WORLD_SIZE is 2"),
        ({"RANK": "é" * 99}, f"RANK is {'é' * 20!a}, and WORLD_SIZE is 1"),
    ],
)
def test_a_rank_that_cannot_be_is_said(environ: dict[str, str], flaw: str) -> None:
    assert rank_flaw(environ) == flaw
