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
        work_categories: Values of ``cat`` that mark work of the device, beside those that Kineto has for all vendors.
        work_processes: Names of the processes in the file whose rows are work of the device.
        call_processes: Names of the processes in the file whose rows are runtime calls of the host thread of that
            number.
        range_categories: Values of ``cat`` that mark ranges of the host around its runtime calls.
        bookkeeping: How the names of device rows begin that are no work, only bookkeeping of its queues.
        copies: How the names of device rows begin that are copies, in any case.
        fills: How the names of device rows begin that are fills, in any case.
        mirrors_calls: Whether runtime calls are repeated in the process of the device.
        launch_arrows: Categories of the arrows from runtime calls to device work. Others are linked by correlation.
        call_starts: How the names of its runtime calls begin, for vendors that share a category.
        process_words: Words in the names of its devices' processes, beside a number, that no other vendor uses.
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
    work_categories: tuple[str, ...] = ()
    work_processes: tuple[str, ...] = ()
    call_processes: tuple[str, ...] = ()
    range_categories: tuple[str, ...] = ()
    bookkeeping: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()
    mirrors_calls: bool = False
    launch_arrows: tuple[str, ...] = ()
    call_starts: tuple[str, ...] = ()
    process_words: tuple[str, ...] = ()
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
        call_starts=("cuda",),
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
        runtime_categories=("hip_runtime", "hip_driver"),
        call_starts=("hip",),
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
        runtime_categories=("xpu_runtime", "xpu_driver"),
        launch_calls=("EnqueueKernelLaunch", "AppendLaunchKernel"),
        process_words=("XPU",),
        waiting_calls=("Synchronize", "QueueFinish", "EventWait"),
        memory_calls=("USMDeviceAlloc", "USMHostAlloc", "USMSharedAlloc", "USMFree"),
        setup_calls=("ProgramBuild", "ProgramLink", "ModuleCreate"),
        copy_calls=("EnqueueUSMMemcpy", "EnqueueMemBufferCopy"),
        fill_calls=("EnqueueUSMFill",),
        collective_libraries=("oneCCL", "XCCL"),
        collective_ranges=("xccl:",),
        has_device_memory=True,
        allocator_word="XPU",
        is_activity=True,
    ),
    Vendor(device="mps", title="Apple Metal", device_type=13, process_words=("MPS", "Metal")),
    Vendor(
        device="mtia",
        title="Meta MTIA",
        device_type=19,
        runtime_categories=("mtia_runtime",),
        work_categories=("mtia_ccp_events",),
        bookkeeping=("event_wait", "event_record"),
        copies=("dma_request",),
        mirrors_calls=True,
        launch_calls=("runFunction",),
        waiting_calls=("synchronizeStream", "synchronizeDevice", "synchronizeEvent"),
        process_words=("MTIA",),
        is_activity=True,
    ),
    Vendor(
        device="hpu",
        title="Intel Gaudi",
        device_type=15,
        work_categories=("hpu_op",),
        process_words=("HPU", "Gaudi"),
        is_activity=True,
    ),
    Vendor(
        device="npu",
        title="Huawei Ascend",
        work_processes=("Ascend Hardware",),
        call_processes=("CANN",),
        range_categories=("enqueue", "dequeue"),
        bookkeeping=("EVENT_",),
        copies=("MEMCPY",),
        fills=("MEMSET",),
        launch_arrows=("HostToDevice",),
        launch_calls=("Node@launch", "aclrtLaunchKernel"),
        waiting_calls=("Synchronize",),
        memory_calls=("aclrtMalloc", "aclrtFree"),
        setup_calls=("aclopCompile", "Compile", "BinaryLoad"),
        copy_calls=("aclrtMemcpy",),
        fill_calls=("aclrtMemset",),
        process_words=("NPU", "Ascend"),
        collective_libraries=("HCCL",),
        collective_ranges=("hccl:",),
    ),
    Vendor(
        device="privateuse1",
        title="Out-of-tree backend",
        device_type=20,
        runtime_categories=("privateuse1_runtime", "privateuse1_driver"),
        process_words=("PrivateUse1",),
        launch_calls=("LaunchKernel",),
        waiting_calls=("Synchronize",),
        memory_calls=("Malloc", "Free"),
        setup_calls=("ModuleLoad",),
        copy_calls=("Memcpy",),
        fill_calls=("Memset",),
        has_device_memory=True,
        is_activity=True,
    ),
    Vendor(device="glow", title="Glow", runtime_categories=("glow_runtime",)),
)

# Kernels of collectives that belong to no vendor, by the beginning of their name without namespaces.
COLLECTIVE_KERNELS = {
    "torch symmetric memory": ("multimem_", "one_shot_all_reduce", "two_shot_all_reduce"),
    "vLLM, SGLang, AITER": ("cross_device_reduce_", "reduce_scatter_cross_device_", "allreduce_LL_"),
    "TensorRT-LLM, FlashInfer": (
        "allreduce_fusion_kernel",
        "moereduce_allreduce_fusion_kernel",
        "moefinalize_allreduce_fusion_kernel",
        "lamport_style_one_shot_all_reduce",
        "oneShotAllReduceKernel",
        "twoShotAllReduceKernel",
    ),
    "quick all-reduce": ("allreduce_prototype_", "quickreduce::"),
    "MSCCL++": ("mscclpp",),
    "HCCL": ("hcom_",),
    "NVSHMEM": ("nvshmem",),
    "DeepEP": ("deep_ep::intranode::", "deep_ep::internode::", "deep_ep::internode_ll::"),
    "gloo": ("gloo::",),
}
# Kineto's other categories, which are not work of a device: synchronization, counters, ranges of performance metrics.
NO_WORK_CATEGORIES = (
    "external_correlation", "cpu_instant_event", "cuda_sync", "cuda_event", "cuda_profiler_range",
    "xpu_scope_profiler", "mtia_insight", "mtia_counters", "collective_comm",
)  # fmt: skip


def _any_of(parts: tuple[str, ...]) -> str:
    return f"({'|'.join(re.escape(part) for part in dict.fromkeys(parts))})"


ACTIVITIES = tuple(vendor.device for vendor in VENDORS if vendor.is_activity)
DEVICE_TYPES = {vendor.device_type: vendor.device for vendor in VENDORS if vendor.device_type is not None}
RUNTIME_CATEGORIES = tuple(category for vendor in VENDORS for category in vendor.runtime_categories)
METADATA_KEYS = tuple(key for vendor in VENDORS for key in vendor.metadata_keys)
COLLECTIVE_LIBRARIES = tuple(library for vendor in VENDORS for library in vendor.collective_libraries)
WORK_CATEGORIES = tuple(category for vendor in VENDORS for category in vendor.work_categories)
RANGE_CATEGORIES = tuple(category for vendor in VENDORS for category in vendor.range_categories)
# The arrows of torch's autograd profiler, from an op to the time that it took on a device of this type.
AUTOGRAD_ARROWS = tuple(f"cpu_to_{device}" for device in ("cuda", "xpu", "hpu", "npu", "mtia", "privateuseone"))
LAUNCH_ARROWS = tuple(arrow for vendor in VENDORS for arrow in vendor.launch_arrows)
# Regular expressions of names. Kernels of C++ templates carry their return type and namespaces in front.
_NAMESPACES = r"(?i)^(?:static |void )*(?:(?:\w+|\(anonymous namespace\)|\{anonymous\})::)*"
COLLECTIVE_KERNEL = _NAMESPACES + _any_of(
    (*COLLECTIVE_LIBRARIES, *(start for starts in COLLECTIVE_KERNELS.values() for start in starts))
)
HOST_COLLECTIVE = f"^{_any_of(VENDORS[0].collective_ranges)}"
COLLECTIVE_RANGE = f"^{_any_of(tuple(start for vendor in VENDORS for start in vendor.collective_ranges))}"
GRAPH_LAUNCH = _any_of(tuple(call for vendor in VENDORS for call in vendor.graph_launch_calls))
LAUNCH = _any_of(tuple(call for vendor in VENDORS for call in (*vendor.launch_calls, *vendor.graph_launch_calls)))
# Calls with the name of a copy or a fill that start no work of the device: they ask, prepare, or make part of a graph.
NO_TRANSFER = r"(?i)Symbol(Address|Size)|GetAttribute|Graph\w*(Memcpy|Memset)|(Memcpy|Memset)\w*Node|MemPrefetch"
# Ops that only a device runs; others with such a name, as cudnn_is_acceptable, run on any.
DEVICE_OP = r"^aten::(_?(cudnn|miopen)_(conv|batch|rnn|ctc|grid|affine|attention|depthwise|init)|_cuda_|_thnn_fused)"
# The bounds of a capture of a stream into a graph, and waits for a whole device and for a stream.
BEGIN_CAPTURE, END_CAPTURE = "StreamBeginCapture", "StreamEndCapture"
DEVICE_WAIT = r"(?i)DeviceSynchronize|synchronizeDevice|CtxSynchronize"
STREAM_SYNC = r"(?i)StreamSynchronize|synchronizeStream"
# Calls that queue something behind the work of a device, or ask for it; they take long while a queue is full.
QUEUE_CALL = r"(?i)WaitEvent|waitOnEvent|EventRecord|EventQuery|StreamQuery|HostFunc|AddCallback"
# Calls of a driver or runtime by the way they are named, not ranges that a program sets around them.
DRIVER_CALL = r"^(cu|cuda|hip|ze|ur|acl|aclrt)[A-Z]"
# A call that makes a stream wait for an event does not make the host wait.
STREAM_WAIT = r"(?i)WaitEvent|waitOnEvent"


def _calls(attribute: str) -> str:
    parts = tuple(call for vendor in VENDORS for call in getattr(vendor, attribute))
    return rf"(?i){_any_of(parts)}"


WAITING_CALL, MEMORY_CALL, SETUP_CALL, QUERY_CALL, COPY_CALL, FILL_CALL = map(
    _calls, ("waiting_calls", "memory_calls", "setup_calls", "query_calls", "copy_calls", "fill_calls")
)
DEVICE_MEMORY = f"^{_any_of(tuple(vendor.device for vendor in VENDORS if vendor.has_device_memory))}:"
# The name or label of a process that stands for an accelerator, such as GPU 0; and one that tells its vendor, MTIA 17.
_WORDS = "|".join(word for vendor in VENDORS for word in vendor.process_words)
ACCELERATOR = rf"(?i)\b(?:[abd-z]pu|accelerator|{_WORDS})\b"
VENDOR_NAMED = rf"(?i)\b(?:{_WORDS})\b"


def beginning_with(starts: tuple[str, ...]) -> str:
    """Return the regular expression of names that begin with one of ``starts``, in any case; of none if it is empty."""
    return f"(?i)^{_any_of(starts)}" if starts else "^\\b$"


def device_of_allocator(settings: str) -> str:
    """Return the device type that the allocator settings of a memory snapshot name, ``cuda`` if none is named."""
    named = (vendor.device for vendor in VENDORS if vendor.allocator_word and vendor.allocator_word in settings)
    return next(named, "cuda")
