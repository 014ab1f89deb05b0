from __future__ import annotations

import re

import pytest
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

from torchprof_magic.ingest.chrome.categories import category_of
from torchprof_magic.model.vendors import (
    ACTIVITIES,
    COLLECTIVE_KERNEL,
    COLLECTIVE_RANGE,
    DEVICE_MEMORY,
    DEVICE_TYPES,
    LAUNCH,
    VENDORS,
    Vendor,
    device_of_allocator,
)


def test_device_types_are_numbered_as_in_torch() -> None:
    numbers = {name.lower(): int(member) for name, member in DeviceType.__members__.items()}
    assert {device: numbers[device] for device in DEVICE_TYPES.values()} == {
        device: number for number, device in DEVICE_TYPES.items()
    }


def test_no_two_vendors_share_a_device_name_number_or_category() -> None:
    for values in (
        [vendor.device for vendor in VENDORS],
        [vendor.device_type for vendor in VENDORS if vendor.device_type is not None],
        [category for vendor in VENDORS for category in vendor.runtime_categories],
    ):
        assert len(values) == len(set(values))


def test_every_activity_of_torch_can_be_recorded() -> None:
    assert {name.lower() for name in ProfilerActivity.__members__} <= set(ACTIVITIES)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.device)
def test_calls_of_a_vendors_runtime_are_runtime_calls(vendor: Vendor) -> None:
    for category in vendor.runtime_categories:
        assert category_of(category) == category_of(category.upper()) == "runtime"


@pytest.mark.parametrize(
    ("name", "is_collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", True),
        ("void rccl::AllGather<float>()", True),
        ("mscclKernel_Sum_float", True),
        ("void at::native::reduce_nccl_like()", False),
        ("gemm", False),
    ],
)
def test_collective_kernels_are_known_by_the_library_they_begin_with(name: str, is_collective: bool) -> None:
    assert bool(re.search(COLLECTIVE_KERNEL, name)) is is_collective


@pytest.mark.parametrize(
    ("name", "is_collective"),
    [
        ("nccl:all_reduce", True),
        ("gloo:broadcast", True),
        ("xccl:all_gather", True),
        ("ncclKernel", True),
        ("gloomy", False),
        ("my nccl:all_reduce", False),
    ],
)
def test_ranges_of_collectives_are_known_by_how_they_begin(name: str, is_collective: bool) -> None:
    assert bool(re.search(COLLECTIVE_RANGE, name)) is is_collective


@pytest.mark.parametrize(
    ("name", "is_launch"),
    [("cudaLaunchKernel", True), ("hipLaunchCooperativeKernel", True), ("cudaGraphLaunch", True), ("cudaFree", False)],
)
def test_launches_are_known_by_their_name(name: str, is_launch: bool) -> None:
    assert bool(re.search(LAUNCH, name)) is is_launch


@pytest.mark.parametrize(
    ("device", "is_counted"), [("cuda:0", True), ("xpu:1", True), ("cpu", False), ("mps:0", False)]
)
def test_device_memory_is_what_torch_counts_as_such(device: str, is_counted: bool) -> None:
    assert bool(re.search(DEVICE_MEMORY, device)) is is_counted


def test_the_allocator_settings_of_a_snapshot_name_the_device() -> None:
    assert device_of_allocator("PYTORCH_XPU_ALLOC_CONF expandable_segments") == "xpu"
    assert device_of_allocator("PYTORCH_CUDA_ALLOC_CONF") == device_of_allocator("") == "cuda"
