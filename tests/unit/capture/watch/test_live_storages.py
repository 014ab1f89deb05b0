from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.torch_api.storages import storage_address
from torchprof_magic.capture.watch import live_storages
from torchprof_magic.capture.watch.live_storages import LiveStorages
from torchprof_magic.capture.watch.program import ProgramWatch

if TYPE_CHECKING:
    from torchprof_magic.model.recording import LiveStorage

SIZE = 4 * 12_345  # of no other tensor of the process


def new() -> torch.Tensor:
    return torch.ones(12_345)


def rows(watch: LiveStorages) -> list[LiveStorage]:
    found = watch.take(0)
    assert found is not None
    return [row for row in found if row.size_bytes == SIZE]


def test_what_goes_is_told_with_its_time_and_what_stays_or_comes_without() -> None:
    watch, stays, goes = LiveStorages(), new(), [new()]
    addresses = [storage_address(stays), storage_address(goes[0])]
    watch.begin_cycle()
    before = perf_counter_ns()
    goes.clear()
    after = perf_counter_ns()
    comes = new()
    found = {(row.is_older, row.is_in_use): row for row in rows(watch)}
    assert found[True, True].address == addresses[0]
    assert found[True, True].gone_ns is None
    gone = found[True, False]
    assert gone.address == addresses[1]
    assert gone.gone_ns is not None
    assert before <= gone.gone_ns <= after
    assert found[False, True].address == storage_address(comes)


def test_a_storage_of_two_tensors_goes_with_the_last_of_them() -> None:
    watch, tensors = LiveStorages(), [new()]
    tensors.append(tensors[0][10:])
    watch.begin_cycle()
    tensors.pop(0)
    between = perf_counter_ns()
    tensors.pop()
    (gone,) = rows(watch)
    assert gone.gone_ns is not None
    assert gone.gone_ns >= between


def test_what_only_a_graph_keeps_goes_with_the_tensor_in_front_of_it() -> None:
    watch, weight = LiveStorages(), torch.ones(1, requires_grad=True)
    losses = [(new() * weight).sum()]
    watch.begin_cycle()
    assert len([row for row in rows(watch) if row.is_in_use]) >= 1
    watch.begin_cycle()
    losses.clear()
    (gone, *_) = [row for row in rows(watch) if not row.is_in_use]
    assert gone.gone_ns is not None


def test_what_is_new_and_goes_with_the_events_of_torch_was_held_by_them_alone() -> None:
    watch, events, of_events = LiveStorages(), [[new()], [new()]], []
    kept = new()
    for cycle in range(2):
        watch.begin_cycle()
        events[cycle] += [new(), kept]
        of_events.append(storage_address(events[cycle][1]))
        watch.take(cycle)
        assert watch.grew_in(cycle)
    # Both are freed after both have ended, as of cycles without a pause between them.
    for cycle in range(2):
        assert watch.held_until(events[cycle].clear, cycle) == {of_events[cycle]}
        assert watch.held_until(events[cycle].clear, cycle) == frozenset()


def test_memory_that_only_takes_the_place_of_as_large_memory_has_not_grown() -> None:
    watch, tensors = LiveStorages(), [new(), torch.ones(99_999)]
    watch.begin_cycle()
    tensors.append(new())
    tensors.pop(0)
    watch.take(0)
    assert not watch.grew_in(0)
    # What is released once, and is of another size, makes up for nothing.
    tensors.append(new())
    tensors.pop(0)
    watch.take(1)
    assert watch.grew_in(1)


def test_a_storage_that_processes_share_is_gone_with_its_tensor_even_if_torch_keeps_a_weak_reference() -> None:
    watch, tensors = LiveStorages(), [new().share_memory_(), new().share_memory_()]
    kept = [StorageWeakRef(tensor.untyped_storage()) for tensor in tensors]
    watch.begin_cycle()
    addresses = [storage_address(tensor) for tensor in tensors]
    tensors.pop()
    found = {row.address: row.is_in_use for row in rows(watch) if row.is_older}
    assert [found[address] for address in addresses] == [True, False]
    del kept


def test_nothing_is_kept_alive() -> None:
    watch, tensors = LiveStorages(), [new()]
    watch.begin_cycle()
    address = storage_address(tensors[0])
    tensors.clear()
    assert [row.is_in_use for row in rows(watch) if row.address == address] == [False]


@pytest.mark.parametrize("limit", ["MOST_TENSORS", "MOST_NODES"])
def test_with_too_many_objects_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    loss: Any = (torch.ones(3, requires_grad=True) * 2).exp().sum()
    monkeypatch.setattr(live_storages, limit, 1)
    watch = LiveStorages()
    watch.begin_cycle()
    assert watch.take(0) is None
    del loss


def test_an_error_of_a_class_of_the_users_is_a_problem_and_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_tensor: object) -> int:
        raise KeyError("no address")

    monkeypatch.setattr(live_storages, "storage_address", fail)
    problems, kept = ProblemLog(), new()
    watch = ProgramWatch(problems, Parts(problems), memory=True)
    watch.begin_cycle(has_memory=True)
    watch.end_cycle(0)
    (marks,) = watch.finish()
    assert marks.storages is None
    assert [problem.code for problem in problems.as_tuple()] == ["capture.part_failed"]
    assert "no address" in problems.as_tuple()[0].message
    del kept
