"""The rules, in the order of the documentation. A new one is a new entry of ``RULES`` and its function."""

from __future__ import annotations

from torchprof_magic.findings.advice.kinds import Rule
from torchprof_magic.findings.advice.rules.attention import attention_unfused
from torchprof_magic.findings.advice.rules.batchnorm import bias_before_batchnorm
from torchprof_magic.findings.advice.rules.communication import gradient_sync_each_step, many_small_collectives
from torchprof_magic.findings.advice.rules.compiled import graph_breaks, recompiles
from torchprof_magic.findings.advice.rules.constants import rebuilt_constant, repeated_copy
from torchprof_magic.findings.advice.rules.data import dataloader_workers
from torchprof_magic.findings.advice.rules.device_waits import pageable_copy, sync_in_loop
from torchprof_magic.findings.advice.rules.fusion import unfused_ops
from torchprof_magic.findings.advice.rules.host_waits import sleeping, waiting
from torchprof_magic.findings.advice.rules.inference import eval_mode, inference_mode
from torchprof_magic.findings.advice.rules.memory import allocator_churn, checkpoint, memory_leak
from torchprof_magic.findings.advice.rules.optimizer import single_tensor_optimizer, zero_grad_set_to_none
from torchprof_magic.findings.advice.rules.precision import autocast, channels_last, odd_half_sizes, tf32_off
from torchprof_magic.findings.advice.rules.python_loop import python_loop
from torchprof_magic.findings.advice.rules.recording import profiling_distorts
from torchprof_magic.findings.advice.rules.small_kernels import small_kernels
from torchprof_magic.findings.advice.rules.straggler import straggler
from torchprof_magic.findings.advice.rules.threads import oversubscribed_threads, undersubscribed_threads

_LINES = "the line, in a cell that `%%torchprof` records"
_SHAPES = "`--shapes`"
_DEVICE = "work of a device"
RULES = (
    Rule(
        "dataloader_workers",
        dataloader_workers,
        "A DataLoader without workers takes at least 2 ms for a batch, or workers have no batch ready in at least "
        "half of all fetches. With W workers a step takes as long as its rest, or as a W-th of the fetch, or as its "
        "work on all cores; no more workers are advised than the process may use cores.",
    ),
    Rule(
        "pageable_copy",
        pageable_copy,
        "Memory that is not pinned is copied to a device. The calls are gone, and nothing in the copying ops waits.",
        _DEVICE,
    ),
    Rule(
        "sync_in_loop",
        sync_in_loop,
        "An op such as `item`, `nonzero`, a boolean index or a copy to the host waits for the device, or the program "
        "does so itself, and the device then runs dry for at least 1 % of a step. Nothing in these ops waits any more.",
        _DEVICE,
    ),
    Rule(
        "sleeping",
        sleeping,
        "A line sleeps for at least 1 ms of a step, other than in the fetch of a DataLoader. That time is gone.",
        "a live run, or stacks",
    ),
    Rule(
        "waiting",
        waiting,
        "A line waits for at least 1 ms of a step for what others do, such as a queue, a process or a socket, other "
        "than in the fetch of a DataLoader, and does not write. For a queue that time is gone; of any other wait, as "
        "much as can run beside the rest of the step.",
        "a live run",
    ),
    Rule(
        "python_loop",
        python_loop,
        "A line takes at least 48 elements per step out of tensors, in forward or in backward that you wrote, and "
        "neither multiplies matrices nor convolves. Of its time two turns are left, and ops of more than 40 µs. A line "
        "that prints is told to print less.",
        "lines or stacks",
    ),
    Rule(
        "repeated_copy",
        repeated_copy,
        "The loop converts or moves a tensor that nothing in it binds or changes, and the copy has no gradient.",
        _LINES,
    ),
    Rule(
        "rebuilt_constant",
        rebuilt_constant,
        "The loop makes a tensor from values that nothing in it binds or changes; or every step makes positions "
        "with `arange`, or a mask with `tril` or `triu` of a filled tensor, equally often.",
    ),
    Rule(
        "single_tensor_optimizer",
        single_tensor_optimizer,
        "Adam, AdamW, SGD or Adagrad updates one parameter after the other. Fused, the calls are gone, and the ops' "
        "own time falls to the share of tensors that are read and written. What comes before and after the ops "
        "remains. Each part of a step counts with its shortest time in the recorded steps.",
    ),
    Rule(
        "zero_grad_set_to_none",
        zero_grad_set_to_none,
        "`zero_grad` fills gradients with zeros. Filling them and adding to these zeros is gone.",
    ),
    Rule(
        "bias_before_batchnorm",
        bias_before_batchnorm,
        "A layer with a bias is followed by a batch norm, and both take at least 5 % of a step.",
        _SHAPES,
    ),
    Rule(
        "tf32_off",
        tf32_off,
        "Kernels multiply in float32 for at least 5 % of a step on a device that has units for TF32.",
        _DEVICE,
    ),
    Rule(
        "autocast",
        autocast,
        "Products and convolutions in float32 take at least 20 % of a step on a device with tensor cores; or products "
        "of matrices that last at least 100 µs do, on a CPU with AMX.",
        f"{_DEVICE}, or {_SHAPES} in a live run",
    ),
    Rule(
        "channels_last",
        channels_last,
        "cuDNN converts layouts around convolutions; or, on the CPU, convolutions, normalisation and pooling of plain "
        "layout take at least half of a step.",
    ),
    Rule(
        "odd_half_sizes",
        odd_half_sizes,
        "Products in half precision with sizes that are no multiple of 8 take at least 5 % of a step on a device with "
        "tensor cores.",
        f"{_DEVICE}, {_SHAPES}",
    ),
    Rule(
        "small_kernels",
        small_kernels,
        "At least 50 kernels per step, a quarter of them shorter than 10 µs. What the host does while the queue is "
        "empty and the device waits for the launch of the next one is gone.",
        _DEVICE,
    ),
    Rule(
        "unfused_ops",
        unfused_ops,
        "Kernels of torch that only go through tensors element by element, add up or join them take at least 20 % of a "
        "step outside of the optimizer, on a device that is the limit, and nothing is compiled.",
        _DEVICE,
    ),
    Rule(
        "recompiles",
        recompiles,
        "`torch.compile` compiles something again in at least two of the recorded steps. In a live run there "
        "is one for each cause, with the guards that failed and what to change: sizes, dtypes, numbers, modes. "
        "With it goes that of the backward pass, if one line compiles again.",
    ),
    Rule(
        "graph_breaks",
        graph_breaks,
        "A compiled region runs inside another one, which is how code goes on after a graph break, and they take at "
        "least 10 % of a step without compilation. In a live run there is one for each line that breaks a graph, up to "
        "three, with torch's reason, what to change there, and how long the host takes from graph to graph.",
    ),
    Rule(
        "attention_unfused",
        attention_unfused,
        "A softmax stands between two products of batches of matrices. What stands between them is gone, with its "
        "backward.",
    ),
    Rule(
        "eval_mode",
        eval_mode,
        "Dropout draws numbers, and nothing that was recorded is of a backward pass or an optimizer. Its time is gone.",
    ),
    Rule(
        "inference_mode",
        inference_mode,
        "Ops add at least 8 nodes to a graph of autograd in every step, and nothing that was recorded is of a backward "
        "pass or an optimizer.",
    ),
    Rule(
        "oversubscribed_threads",
        oversubscribed_threads,
        "Ops use more threads than the process may use cores, and take at least 30 % of a step.",
        "a live run",
    ),
    Rule(
        "undersubscribed_threads",
        undersubscribed_threads,
        "Ops of at least 200 µs take at least 30 % of a step, and use fewer threads than the process may use cores.",
        "a live run",
    ),
    Rule(
        "allocator_churn",
        allocator_churn,
        "Calls reserve device memory or give it back in at least two of the recorded steps.",
        _DEVICE,
    ),
    Rule(
        "gradient_sync_each_step",
        gradient_sync_each_step,
        "DistributedDataParallel exchanges gradients after passes that no step of an optimizer follows.",
    ),
    Rule(
        "many_small_collectives",
        many_small_collectives,
        "A line starts at least 16 collectives per step. Each is taken to cost as much as the shortest tenth of them, "
        "and joining them two copies of what they send; where their sizes are not known, no number is said.",
    ),
    Rule(
        "straggler",
        None,
        "The others wait for a rank in at least three collectives, for at least 1 % of a step each. The saving is by "
        "how much it comes after the last of the others.",
        "many ranks, as in [ranks.md](ranks.md)",
        find_in_job=straggler,
    ),
    Rule(
        "memory_leak",
        memory_leak,
        "What steps leave behind is at least 1 % of the peak and 1 KiB a step, by `report.leaks`. Where that is not "
        "certain of the growth, it is estimated. In the process that recorded, the change depends on what keeps it.",
        "`--memory`",
    ),
    Rule(
        "checkpoint",
        checkpoint,
        "Activation checkpointing would lower a peak of at least 100 MiB by a fifth, by `report.savings`.",
        "`--memory`",
    ),
    Rule(
        "profiling_distorts",
        profiling_distorts,
        "Recorded steps take at least 1.5 times as long as others, not longer than recording their events can make "
        "them, and shapes, stacks, memory or lines of functions were recorded.",
        "a live run",
    ),
)
