from __future__ import annotations

import pytest
import torch
from support import annotation, frame, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.waiting.loaders import loaders_table, starved_words

WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
CALLER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEPS = (annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000))


def test_fetches_are_one_row_per_kind_and_line() -> None:
    code = frame("train.py(4): epoch", 0, 20_000)
    fetches = annotation(WORKERS, 100, 4_000), annotation(WORKERS, 10_100, 1_000), annotation(CALLER, 15_000, 500)
    rows = Report(make_trace(*STEPS, code, *fetches)).loaders
    columns = ("loaded_by", "file", "line", "count", "total_ns", "median_ns", "longest_ns", "share_ratio", "late")
    assert rows.select(columns).rows() == [
        ("workers", "train.py", 4, 2, 5_000_000, 2_500_000, 4_000_000, 0.25, 1),
        ("caller", "train.py", 4, 1, 500_000, 500_000, 500_000, pytest.approx(0.025), None),
    ]
    assert rows["device_idle_ns"].to_list() == [None, None]


def test_a_device_idles_in_the_part_of_a_fetch_in_which_it_does_not_work() -> None:
    work = launch(0, 10, correlation=1), kernel("k", 500, 1_500, correlation=1)
    rows = Report(make_trace(*STEPS, *work, annotation(CALLER, 1_000, 5_000))).loaders
    assert rows["device_idle_ns"].to_list() == [4_000_000]


def test_only_fetches_in_recorded_steps_count() -> None:
    step = annotation("ProfilerStep#1", 10_000, 10_000)
    fetches = annotation(CALLER, 0, 100), annotation(CALLER, 12_000, 100), annotation(CALLER, 20_000, 100)
    assert Report(make_trace(step, span("op", 5, 1), *fetches)).loaders["count"].to_list() == [1]


@pytest.mark.parametrize(
    ("late", "words"),
    [
        (0, "The workers had a batch ready 4 of 4 times."),
        (1, "The workers had a batch ready 3 of 4 times."),
        (2, "The workers do not keep up: no batch was ready 2 of 4 times."),
    ],
)
def test_workers_that_have_no_batch_ready_do_not_keep_up(late: int, words: str) -> None:
    fetches = [annotation(WORKERS, 2_000 * place, 1_001 if place < late else 1_000) for place in range(4)]
    assert starved_words(make_trace(*STEPS, *fetches)) == words


def test_a_program_without_loaders_has_no_row_and_no_words() -> None:
    trace = make_trace(*STEPS, span("aten::mm", 0, 10))
    assert Report(trace).loaders.height == 0
    assert starved_words(trace) == ""


def test_a_verdict_of_data_says_whether_workers_keep_up() -> None:
    fetches = [annotation(WORKERS, 10_000 * place, 8_000) for place in range(2)]
    text = str(Report(make_trace(*STEPS, *fetches, span("aten::mm", 8_100, 100))).verdict)
    assert "no batch was ready 2 of 2 times" in text


class Slow(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        torch.randn(300, 300).inverse()
        return torch.ones(index + 1)[:1]


def test_a_live_loader_without_workers_is_loaded_by_its_caller() -> None:
    with tp.profile() as run:
        for batch in torch.utils.data.DataLoader(Slow(), batch_size=2):
            (batch * 2).sum()
    assert run.report is not None
    rows = run.report.loaders
    assert rows["loaded_by"].to_list() == ["caller"]
    assert rows["count"].item() == 5  # four batches, and the end


def test_a_fetch_is_cut_at_the_edges_of_a_part_and_stays_one_that_was_not_ready() -> None:
    trace = make_trace(*STEPS, annotation(WORKERS, 8_000, 4_000), annotation(WORKERS, 15_000, 600))
    columns = ("count", "total_ns", "longest_ns", "share_ratio", "late")
    # Of the first fetch, 2 of 4 ms lie in each step of 10 ms.
    first = loaders_table(trace, TimeRange(0, 10_000_000)).frame.select(columns).rows()
    assert first == [(1, 2_000_000, 2_000_000, 0.2, 1)]
    second = loaders_table(trace, TimeRange(10_000_000, 20_000_000)).frame.select(columns).rows()
    assert second == [(2, 2_600_000, 2_000_000, 0.26, 1)]
    # The last 0.1 ms are of a fetch that had no batch ready.
    end = loaders_table(trace, TimeRange(11_900_000, 12_500_000)).frame.select("total_ns", "late").rows()
    assert end == [(100_000, 1)]
