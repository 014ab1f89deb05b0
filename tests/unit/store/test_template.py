from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.store.template import (
    FIELDS,
    TraceValues,
    number_in,
    numbered,
    parse_filename,
    parse_folder,
    parse_remote,
)

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
    batch=120,
    batch_in_epoch=20,
    sample=960,
    sample_in_epoch=160,
    token=61440,
    token_in_epoch=10240,
    total_wct=12.3456789,
    epoch_wct=2.0,
    batch_wct=0.00001,
    pid=77,
    timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
    cell=9,
)


def test_every_documented_field_can_be_used() -> None:
    page = (Path(__file__).parents[3] / "docs" / "traces.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE)) == set(FIELDS)
    template = parse_filename("_".join(f"{{{name}}}" for name in FIELDS) + ".json")
    assert template.fields == set(FIELDS)
    assert template.format(VALUES) == (
        "resnet_3_1_8_2_1_120_2_4_120_20_960_160_61440_10240_12.345679_2.000000_0.000010_77_20260102-030405_9.json"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{step:06d}-{rank:01d}.json", "000120-3.json"),
        ("{rank:020d}", "00000000000000000003"),
        ("{total_wct:.1f}s-{batch:04d}.json", "12.3s-0120.json"),
        ("Über alles.json", "Über alles.json"),
        ("{{rank}}.json", "{rank}.json"),
    ],
)
def test_numbers_are_padded_and_the_rest_is_plain_text(text: str, expected: str) -> None:
    assert parse_filename(text).format(VALUES) == expected


def test_the_timestamp_is_in_utc_wherever_it_was_taken() -> None:
    there = VALUES.timestamp.astimezone(timezone(timedelta(hours=9)))
    assert parse_filename("{timestamp}").format(replace(VALUES, timestamp=there)) == "20260102-030405"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{rnk}.json", "no field {rnk}; choose from run_name, rank"),
        ("{}.json", "no field {}"),
        ("{0}.json", "no field {0}"),
        ("{rank.__class__}", "no field {rank.__class__}"),
        ("{run_name[0]}", "no field {run_name[0]}"),
        ("{rank!r}", "no other format"),
        ("{step:>999999999}", "write {step}, or {step:04d} for leading zeros"),
        ("{step:0999999999d}", "leading zeros"),
        ("{step:021d}", "up to 20 digits"),
        ("{step:4d}", "leading zeros"),
        ("{step:04x}", "leading zeros"),
        ("{step:{rank}}", "leading zeros"),
        ("{run_name:04d}", "write {run_name}; this field has no other format"),
        ("{timestamp:04d}", "no other format"),
        ("{epoch_wct:04d}", "write {epoch_wct}, or {epoch_wct:.1f} for fewer digits"),
        ("{batch_wct:.9f}", "up to 6"),
        ("{rank", "expected '}' before end of string"),
        ("rank}", "Single '}' encountered"),
        ("", "empty"),
        ("/etc/trace.json", "cannot contain '/'; --trace-dir sets the folder"),
        ("a/b.json", "cannot contain '/'"),
        ("..", "end in a dot"),
        (".", "end in a dot"),
        ("a\0b", "'\\x00'"),
        ("a\nb", "'\\n'"),
        ("a\u202eb", "'\\u202e'"),
        ("a\udc80b", "'\\udc80'"),
        ("a:b", "':'"),
        ("a\\b", "'\\\\'"),
        ("what?", "'?'"),
        ("name ", "end in a dot or a space"),
        ("nul.json", "device"),
        ("é" * 128, "255 bytes at most (got 256)"),
        (".torchprof-store.json", "reserved"),
    ],
)
def test_a_bad_filename_is_refused_before_the_run(text: str, reason: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse_filename(text)
    assert str(caught.value).startswith("--filename")
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["../traces", "a/../b", "", "a\0b", "{step}", "{a.b}", "~no-such-user/traces"])
def test_a_bad_folder_is_refused_before_the_run(text: str) -> None:
    with pytest.raises(OptionsError, match=r"^--trace-dir"):
        parse_folder(text)


def test_a_url_is_not_a_folder_and_is_not_repeated() -> None:
    with pytest.raises(OptionsError, match="--remote") as caught:
        parse_folder("s3://user:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)


def test_a_folder_may_be_absolute_or_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse_folder("/data/{run_name}/rank{rank:02d}").format(VALUES) == "/data/resnet/rank03"
    assert parse_folder("~/traces").format(VALUES) == "/home/someone/traces"


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "a\\b", "a\0b", "a:b"])
def test_the_name_of_a_run_cannot_lead_elsewhere(name: str) -> None:
    for template in (parse_filename("{run_name}.json"), parse_folder("{run_name}/traces")):
        with pytest.raises(OptionsError, match="--run-name"):
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
        ("{batch}-{rank}.json", "{batch}-{rank}.json"),
        ("{epoch}-{batch_in_epoch}-{rank}.json", "{epoch}-{batch_in_epoch}-{rank}.json"),
        ("{batch_in_epoch}-{rank}.json", "{batch_in_epoch}-{rank}-cycle{cycle}.json"),
        ("{local_rank}.json", "{local_rank}-rank{rank}-cycle{cycle}.json"),
        ("{node_rank}-{local_rank}-{cycle}.json", "{node_rank}-{local_rank}-{cycle}.json"),
    ],
)
def test_two_traces_never_get_one_name(text: str, expected: str) -> None:
    assert parse_filename(text).told_apart(cycles=2, world_size=4).text == expected


def test_a_single_trace_gets_the_name_that_was_asked_for() -> None:
    template = parse_filename("trace.json")
    assert template.told_apart(cycles=1, world_size=1) == template
    assert template.told_apart(cycles=None, world_size=1).text == "trace-cycle{cycle}.json"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("sample", "--step-samples"),
        ("sample_in_epoch", "--step-samples"),
        ("token", "--step-tokens"),
        ("token_in_epoch", "--step-tokens"),
    ],
)
def test_what_a_notebook_cannot_know_is_refused_by_name(name: str, option: str) -> None:
    template = parse_filename(f"{{{name}}}.json")
    with pytest.raises(OptionsError) as caught:
        template.format(replace(VALUES, **{name: None}))
    assert str(caught.value).startswith(f"--filename '{{{name}}}.json': {{{name}}} needs {option}, the number of ")


def test_a_remote_folder_may_hold_the_fields_that_do_not_change() -> None:
    url = "s3://ann:hunter2@bucket/{run_name}/rank{rank:02d}?x={world_size}"
    assert parse_remote(url).format(VALUES) == "s3://ann:hunter2@bucket/resnet/rank03?x=8"
    assert parse_remote("s3://b/{{a}}/{run_name}").format(VALUES) == "s3://b/{a}/resnet"
    assert parse_remote("https://h/{run_name}/x").format(replace(VALUES, run_name="a b#c")) == "https://h/a%20b%23c/x"
    assert parse_remote("memory://plain").format(VALUES) == "memory://plain"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s3://ann:hunter2@b/{step}", "{step} changes during the run; use it in --filename"),
        ("s3://ann:hunter2@b/{batch_in_epoch}", "{batch_in_epoch} changes during the run"),
        ("s3://ann:hunter2@b/{rnk}", "there is no field {rnk}"),
        ("s3://ann:hunter2@b/{rank", "expected '}'"),
    ],
)
def test_a_bad_remote_folder_is_refused_without_showing_its_password(text: str, reason: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse_remote(text)
    assert str(caught.value).startswith("--remote")
    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_number_in_a_name_is_read_back() -> None:
    template = "a.pt.trace.json"
    names = ["a.pt.trace.json", "a-2.pt.trace.json", "a-17.pt.trace.json", "a-1.pt.trace.json", "b.pt.trace.json"]
    assert [number_in(name, template) for name in [*names, "a-2.json", "a-02.pt.trace.json"]] == [1, 2, 17, 0, 0, 0, 0]


def test_a_number_goes_before_the_suffix() -> None:
    assert numbered("a.pt.trace.json.gz", 1) == "a.pt.trace.json.gz"
    names = [numbered(name, 2) for name in ("a.pt.trace.json.gz", "a-1.5", "a.snapshot.pickle")]
    assert names == ["a-2.pt.trace.json.gz", "a-1.5-2", "a-2.snapshot.pickle"]
