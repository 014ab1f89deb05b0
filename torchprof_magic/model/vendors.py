"""The device vendors whose traces are understood, one entry each.

Readers, analyses and exporters ask the values derived below the table, never a vendor by name. A new vendor is a new
entry of ``VENDORS``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The names that traces use for one type of device and its software.

    Attributes:
        device: Name of the device type, as in ``torch.device("cuda")``.
        title: Name of the platform for users.
        device_type: Its number in ``c10::DeviceType``, which allocations carry; ``None`` if torch has none.
        runtime_categories: Values of ``cat`` that mark calls of its runtime or driver, in lower case.
        launch_calls: Parts of the names of runtime calls that start one kernel.
        graph_launch_calls: Parts of the names of runtime calls that start a recorded graph of kernels.
        waiting_calls: Parts of the names of runtime calls that wait until the device has finished something, in any
            case.
        memory_calls: Parts of the names of runtime calls that allocate or free memory in the driver.
        setup_calls: Parts of the names of runtime calls that load or compile code for the device, or make its graphs.
        query_calls: Parts of the names of runtime calls that ask the driver about the device; slow only at first.
        copy_calls: Parts of the names of runtime calls that copy memory.
        fill_calls: Parts of the names of runtime calls that fill memory.
        collective_libraries: Its communication libraries. Their kernels begin with these names, in any case.
        collective_ranges: How the names of host events around collectives begin.
        metadata_keys: Keys that Kineto writes at the top of a trace for this vendor.
        has_device_memory: Whether torch counts allocations of this type as device memory.
        allocator_word: A word in the allocator settings of a memory snapshot that names this type.
        is_activity: Whether torch has a profiler activity of this name, which can be recorded.
    """

    device: str
    title: str
    device_type: int | None = None
    runtime_categories: tuple[str, ...] = ()
    launch_calls: tuple[str, ...] = ()
    graph_launch_calls: tuple[str, ...] = ()
    waiting_calls: tuple[str, ...] = ()
    memory_calls: tuple[str, ...] = ()
    setup_calls: tuple[str, ...] = ()
    query_calls: tuple[str, ...] = ()
    copy_calls: tuple[str, ...] = ()
    fill_calls: tuple[str, ...] = ()
    collective_libraries: tuple[str, ...] = ()
    collective_ranges: tuple[str, ...] = ()
    metadata_keys: tuple[str, ...] = ()
    has_device_memory: bool = False
    allocator_word: str = ""
    is_activity: bool = False


VENDORS = (
    Vendor(
        device="cpu",
        title="Host",
        device_type=0,
        collective_ranges=("gloo:", "mpi:", "ucc:"),
        is_activity=True,
    ),
    Vendor(
        device="cuda",  # torch built for ROCm also calls its devices so
        title="NVIDIA CUDA",
        device_type=1,
        runtime_categories=("cuda_runtime", "cuda_driver"),
        launch_calls=("LaunchKernel", "LaunchCooperativeKernel"),
        graph_launch_calls=("GraphLaunch",),
        waiting_calls=("Synchronize",),
        memory_calls=("Malloc", "Free", "HostAlloc", "HostRegister", "MemCreate", "MemMap"),
        setup_calls=("ModuleLoad", "LibraryLoad", "GraphInstantiate", "GraphExecUpdate"),
        query_calls=("GetDeviceProperties", "GetDeviceCount"),
        copy_calls=("Memcpy",),
        fill_calls=("Memset",),
        collective_libraries=("NCCL",),
        collective_ranges=("nccl",),
        metadata_keys=("cuda_runtime_version", "cuda_driver_version", "DISABLE_CUPTI_LAZY_REINIT"),
        has_device_memory=True,
        is_activity=True,
    ),
    Vendor(
        device="hip",
        title="AMD ROCm",
        device_type=6,
        runtime_categories=("hip_runtime",),
        launch_calls=("LaunchKernel", "LaunchCooperativeKernel"),
        graph_launch_calls=("GraphLaunch",),
        waiting_calls=("Synchronize",),
        memory_calls=("Malloc", "Free", "HostAlloc", "HostRegister", "MemCreate", "MemMap"),
        setup_calls=("ModuleLoad", "LibraryLoad", "GraphInstantiate", "GraphExecUpdate"),
        query_calls=("GetDeviceProperties", "GetDeviceCount"),
        copy_calls=("Memcpy",),
        fill_calls=("Memset",),
        collective_libraries=("RCCL", "MSCCL"),
        collective_ranges=("rccl:",),
        metadata_keys=("hip_runtime_version", "hip_driver_version"),
        has_device_memory=True,
    ),
    Vendor(
        device="xpu",
        title="Intel GPU",
        device_type=12,
        runtime_categories=("xpu_runtime",),
        launch_calls=("EnqueueKernelLaunch",),
        waiting_calls=("Synchronize", "QueueFinish", "EventWait"),
        memory_calls=("USMDeviceAlloc", "USMHostAlloc", "USMSharedAlloc", "USMFree"),
        setup_calls=("ProgramBuild", "ProgramLink", "ModuleCreate"),
        copy_calls=("EnqueueUSMMemcpy", "EnqueueMemBufferCopy"),
        fill_calls=("EnqueueUSMFill",),
        collective_ranges=("xccl:",),
        has_device_memory=True,
        allocator_word="XPU",
        is_activity=True,
    ),
    Vendor(device="mps", title="Apple Metal", device_type=13),
    Vendor(
        device="mtia",
        title="Meta MTIA",
        device_type=19,
        runtime_categories=("mtia_runtime",),
        waiting_calls=("synchronizeStream", "synchronizeDevice", "synchronizeEvent"),
        is_activity=True,
    ),
    Vendor(device="hpu", title="Intel Gaudi", device_type=15, is_activity=True),
    Vendor(
        device="privateuse1",
        title="Out-of-tree backends",
        device_type=20,
        runtime_categories=("privateuse1_runtime", "privateuse1_driver"),
        launch_calls=("aclrtLaunch", "LaunchKernel", "aclnn"),
        waiting_calls=("Synchronize",),
        memory_calls=("aclrtMalloc", "aclrtFree", "Malloc", "Free"),
        setup_calls=("aclopCompile", "ModuleLoad", "BinaryLoad"),
        copy_calls=("aclrtMemcpy", "Memcpy"),
        fill_calls=("aclrtMemset", "Memset"),
        has_device_memory=True,
        is_activity=True,
    ),
    Vendor(device="glow", title="Glow", runtime_categories=("glow_runtime",)),
)


def _any_of(parts: tuple[str, ...]) -> str:
    return f"({'|'.join(re.escape(part) for part in dict.fromkeys(parts))})"


ACTIVITIES = tuple(vendor.device for vendor in VENDORS if vendor.is_activity)
DEVICE_TYPES = {vendor.device_type: vendor.device for vendor in VENDORS if vendor.device_type is not None}
RUNTIME_CATEGORIES = tuple(category for vendor in VENDORS for category in vendor.runtime_categories)
METADATA_KEYS = tuple(key for vendor in VENDORS for key in vendor.metadata_keys)
COLLECTIVE_LIBRARIES = tuple(library for vendor in VENDORS for library in vendor.collective_libraries)
# Regular expressions of names. Kernels of C++ templates carry their return type and namespaces in front.
COLLECTIVE_KERNEL = rf"(?i)^(void )?(\w+::)*{_any_of(COLLECTIVE_LIBRARIES)}"
HOST_COLLECTIVE = f"^{_any_of(VENDORS[0].collective_ranges)}"
COLLECTIVE_RANGE = f"^{_any_of(tuple(start for vendor in VENDORS for start in vendor.collective_ranges))}"
GRAPH_LAUNCH = _any_of(tuple(call for vendor in VENDORS for call in vendor.graph_launch_calls))
LAUNCH = _any_of(tuple(call for vendor in VENDORS for call in (*vendor.launch_calls, *vendor.graph_launch_calls)))
# A call that makes a stream wait for an event does not make the host wait.
STREAM_WAIT = r"(?i)WaitEvent|waitOnEvent"


def _calls(attribute: str) -> str:
    parts = tuple(call for vendor in VENDORS for call in getattr(vendor, attribute))
    return rf"(?i){_any_of(parts)}"


WAITING_CALL, MEMORY_CALL, SETUP_CALL, QUERY_CALL, COPY_CALL, FILL_CALL = map(
    _calls, ("waiting_calls", "memory_calls", "setup_calls", "query_calls", "copy_calls", "fill_calls")
)
DEVICE_MEMORY = f"^{_any_of(tuple(vendor.device for vendor in VENDORS if vendor.has_device_memory))}:"


def device_of_allocator(settings: str) -> str:
    """Return the device type that the allocator settings of a memory snapshot name, ``cuda`` if none is named."""
    named = (vendor.device for vendor in VENDORS if vendor.allocator_word and vendor.allocator_word in settings)
    return next(named, "cuda")
