/** A made-up report of a small ResNet, the same at every load. */

import type { Unit } from "../../js/src/base/format";
import type {
  BarsHeader,
  ColumnHeader,
  Fact,
  Problem,
  ReportHeader,
  Section,
  SeriesHeader,
  ViewHeader,
} from "../../js/src/wire/header";
import { encodeFrame, packViews } from "../../js/test/encode";
import {
  factsHeader,
  problemsHeader,
  seriesHeader,
  tableHeader,
  treeHeader,
} from "../../js/test/headers";

export interface DemoReport {
  readonly header: ReportHeader;
  readonly data: DataView;
}

/** A pseudo-random number 0–1 from a seed; the demo must look the same at every load. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Node {
  readonly name: string;
  readonly kind: string;
  readonly phase: string;
  readonly parent: number;
  self_cpu: number;
  self_device: number;
  total_cpu: number;
  total_device: number;
}

const random = randomFrom(7);
const MS = 1e6;
const US = 1e3;

class TreeBuilder {
  readonly nodes: Node[] = [];

  add(parent: number, name: string, kind: string, phase: string, cpu = 0, device = 0): number {
    const self_cpu = cpu * (0.6 + 0.8 * random());
    const self_device = device * (0.6 + 0.8 * random());
    const totals = { total_cpu: 0, total_device: 0 };
    this.nodes.push({ name, kind, phase, parent, self_cpu, self_device, ...totals });
    return this.nodes.length - 1;
  }

  /** Children stand behind their parents, so one pass from the end sums all totals. */
  finish(): readonly Node[] {
    for (const node of this.nodes.toReversed()) {
      node.total_cpu += node.self_cpu;
      node.total_device += node.self_device;
      const parent = this.nodes[node.parent];
      if (parent === undefined) continue;
      parent.total_cpu += node.total_cpu;
      parent.total_device += node.total_device;
    }
    return this.nodes;
  }
}

const GEMM =
  "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4::Params)";
const ELEMENTWISE =
  "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)";
const NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(...)";

function addLaunch(tree: TreeBuilder, op: number, phase: string, kernel: string, us: number): void {
  const launch = tree.add(op, "cudaLaunchKernel", "runtime", phase, 7 * US);
  tree.add(launch, kernel, "kernel", phase, 0, us * US);
}

function addConv(tree: TreeBuilder, parent: number): void {
  const conv = tree.add(parent, "aten::conv2d", "op", "forward", 22 * US);
  const inner = tree.add(conv, "aten::convolution", "op", "forward", 31 * US);
  const last = tree.add(inner, "aten::_convolution", "op", "forward", 44 * US);
  const cudnn = tree.add(last, "aten::cudnn_convolution", "op", "forward", 260 * US);
  tree.add(cudnn, "aten::empty", "op", "forward", 90 * US);
  addLaunch(tree, cudnn, "forward", GEMM, 210);
}

function addNorm(tree: TreeBuilder, parent: number): void {
  const norm = tree.add(parent, "aten::batch_norm", "op", "forward", 18 * US);
  const inner = tree.add(norm, "aten::_batch_norm_impl_index", "op", "forward", 25 * US);
  const cudnn = tree.add(inner, "aten::cudnn_batch_norm", "op", "forward", 140 * US);
  for (const name of ["aten::empty", "aten::empty", "aten::view"]) {
    tree.add(cudnn, name, "op", "forward", 55 * US);
  }
  addLaunch(tree, cudnn, "forward", NORM, 70);
}

function addLayer(tree: TreeBuilder, forward: number, layer: number): void {
  const block = tree.add(forward, `nn.Module: Bottleneck_${layer}`, "python", "forward", 190 * US);
  for (let at = 0; at < 2; at += 1) {
    addConv(tree, tree.add(block, `nn.Module: Conv2d_${at}`, "python", "forward", 30 * US));
    addNorm(tree, tree.add(block, `nn.Module: BatchNorm2d_${at}`, "python", "forward", 30 * US));
  }
  const relu = tree.add(block, "aten::relu_", "op", "forward", 40 * US);
  addLaunch(tree, relu, "forward", ELEMENTWISE, 40);
}

function addBackward(tree: TreeBuilder, all: number, name: string, op: string, us: number): void {
  const engine = `autograd::engine::evaluate_function: ${name}`;
  const outer = tree.add(all, engine, "op", "backward", us * 0.2 * US);
  const inner = tree.add(outer, name, "op", "backward", us * 0.2 * US);
  const work = tree.add(inner, op, "op", "backward", us * US);
  tree.add(work, "aten::empty", "op", "backward", us * 0.2 * US);
  addLaunch(tree, work, "backward", op.includes("conv") ? GEMM : NORM, us * 0.6);
}

function flameNodes(layers: number): readonly Node[] {
  const tree = new TreeBuilder();
  const all = tree.add(-1, "all", "root", "python");
  const step = tree.add(all, "ProfilerStep", "annotation", "python", 4 * MS);
  const data = tree.add(
    step,
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "annotation",
    "data",
    9 * MS,
  );
  for (const name of ["aten::stack", "aten::to", "aten::copy_"]) {
    tree.add(data, name, "op", "data", 2.4 * MS);
  }
  const forward = tree.add(step, "## forward ##", "annotation", "forward", 3 * MS);
  const ddp = tree.add(forward, "DistributedDataParallel.forward", "annotation", "forward", 5 * MS);
  for (let layer = 0; layer < layers; layer += 1) addLayer(tree, ddp, layer);
  const loss = tree.add(step, "aten::cross_entropy_loss", "op", "forward", 1 * MS);
  tree.add(loss, "aten::log_softmax", "op", "forward", 0.7 * MS);
  tree.add(step, "nccl:all_reduce", "annotation", "communication", 6 * MS, 11 * MS);
  const optimizer = tree.add(step, "Optimizer.step#SGD.step", "annotation", "optimizer", 2 * MS);
  for (const name of ["aten::_foreach_add_", "aten::_foreach_mul_", "aten::add_"]) {
    const op = tree.add(optimizer, name, "op", "optimizer", 3 * MS);
    addLaunch(tree, op, "optimizer", ELEMENTWISE, 1800);
  }
  for (let layer = 0; layer < layers * 2; layer += 1) {
    addBackward(tree, all, "ConvolutionBackward0", "aten::convolution_backward", 420);
    addBackward(tree, all, "CudnnBatchNormBackward0", "aten::cudnn_batch_norm_backward", 230);
    if (layer % 2 === 0) addBackward(tree, all, "ReluBackward0", "aten::threshold_backward", 60);
  }
  return tree.finish();
}

function column(
  name: string,
  title: string,
  unit: ColumnHeader["unit"],
  definition: string,
  flags: { readonly minor?: boolean; readonly bar?: boolean } = {},
): ColumnHeader {
  return {
    name,
    title,
    unit,
    definition,
    minor: flags.minor ?? false,
    bar: flags.bar ?? false,
    verbatim: false,
  };
}

const OP_COLUMNS: readonly ColumnHeader[] = [
  column("name", "Op", "code", "Name of the operator as torch records it."),
  column("kind", "Kind", "text", "cpu_op or user_annotation.", { minor: true }),
  column("phase", "Phase", "phase", "Phase of the step in which most of its time lies."),
  column("calls", "Calls", "count", "How often the op was entered in all recorded steps."),
  column(
    "self_cpu_ns",
    "Self CPU",
    "ns",
    "Time on the CPU inside the op itself, without ops called by it.",
    { bar: true },
  ),
  column("self_cpu_ratio", "Self CPU", "ratio", "Self CPU as a share of all self CPU time.", {
    minor: true,
  }),
  column("total_cpu_ns", "Total CPU", "ns", "Time on the CPU from enter to leave; recursion once."),
  column("self_device_ns", "Self CUDA", "ns", "Time of kernels that the op itself launched.", {
    bar: true,
  }),
  column("mean_cpu_ns", "Mean", "ns", "Total CPU divided by calls.", { minor: true }),
  column("self_cpu_bytes", "Self memory", "bytes", "Allocated minus freed on the CPU.", {
    minor: true,
  }),
];

interface OpSum {
  readonly phase: string;
  calls: number;
  self_cpu: number;
  total_cpu: number;
  self_device: number;
}

function sumByName(nodes: readonly Node[]): ReadonlyMap<string, OpSum> {
  const sums = new Map<string, OpSum>();
  for (const node of nodes) {
    if (node.kind !== "op" && node.kind !== "annotation") continue;
    const none = { phase: node.phase, calls: 0, self_cpu: 0, total_cpu: 0, self_device: 0 };
    const sum = sums.get(node.name) ?? none;
    sum.calls += 3;
    sum.self_cpu += node.self_cpu;
    sum.total_cpu += node.total_cpu;
    sum.self_device += node.self_device + (node.total_device - node.self_device) * 0.8;
    sums.set(node.name, sum);
  }
  return sums;
}

const TAIL = ["transpose", "as_strided", "expand", "permute", "detach", "select", "slice", "clone"];

function opRows(nodes: readonly Node[], count: number) {
  const sums = new Map(sumByName(nodes));
  for (let at = 0; sums.size < count; at += 1) {
    const name = `aten::${TAIL[at % TAIL.length]}${at >= TAIL.length ? `_${at}` : ""}`;
    const self_cpu = 6 * MS * random() ** 4;
    const phase = ["forward", "backward", "optimizer", "data"][at % 4] ?? "python";
    sums.set(name, {
      phase,
      calls: 1 + Math.floor(1500 * random() ** 2),
      self_cpu,
      total_cpu: self_cpu * (1 + random()),
      self_device: 0,
    });
  }
  return Array.from(sums, ([name, sum]) => ({ name, ...sum }));
}

function encodeOps(nodes: readonly Node[], count: number): Uint8Array {
  const rows = opRows(nodes, count);
  const all = rows.reduce((sum, row) => sum + row.self_cpu, 0);
  const numbers = (pick: (row: (typeof rows)[number]) => number) => Float64Array.from(rows, pick);
  return encodeFrame([
    ["name", rows.map((row) => row.name)],
    ["kind", rows.map((row) => (row.name.includes("::") ? "cpu_op" : "user_annotation"))],
    ["phase", rows.map((row) => row.phase)],
    ["calls", Int32Array.from(rows, (row) => row.calls)],
    ["self_cpu_ns", numbers((row) => row.self_cpu)],
    ["self_cpu_ratio", numbers((row) => row.self_cpu / all)],
    ["total_cpu_ns", numbers((row) => row.total_cpu)],
    ["self_device_ns", numbers((row) => row.self_device)],
    ["mean_cpu_ns", numbers((row) => row.total_cpu / row.calls)],
    ["self_cpu_bytes", numbers((row) => Math.round((random() - 0.4) * row.calls * 4096))],
  ]);
}

function encodeFlame(nodes: readonly Node[]): Uint8Array {
  const numbers = (pick: (node: Node) => number) => Float64Array.from(nodes, pick);
  return encodeFrame([
    ["parent", Int32Array.from(nodes, (node) => node.parent)],
    ["name", nodes.map((node) => node.name)],
    ["kind", nodes.map((node) => node.kind)],
    ["phase", nodes.map((node) => node.phase)],
    ["self_cpu", numbers((node) => node.self_cpu)],
    ["total_cpu", numbers((node) => node.total_cpu)],
    ["self_device", numbers((node) => node.self_device)],
    ["total_device", numbers((node) => node.total_device)],
  ]);
}

const STEP_COLUMNS: readonly ColumnHeader[] = [
  column("number", "Step", "step", "Number of the step as the loop counts it."),
  column("cycle", "Cycle", "step", "Which active window of the schedule.", { minor: true }),
  column("complete", "Complete", "bool", "Whether the whole step was recorded."),
  column("start_ns", "Start", "ns", "From the start of the run."),
  column("dur_ns", "Duration", "ns", "From its start to the next step.", { bar: true }),
  column("forward_ns", "Forward", "ns", "Time in the forward phase."),
  column("backward_ns", "Backward", "ns", "Time in the backward phase."),
  column("optimizer_ns", "Optimizer", "ns", "Time in the optimizer."),
  column("communication_ns", "Communication", "ns", "Time in collectives.", { minor: true }),
  column("data_ns", "Data", "ns", "Time waiting for data."),
  column("python_ns", "Other", "ns", "What is left.", { minor: true }),
];

const STEP_BARS: BarsHeader = {
  number: "number",
  total: "dur_ns",
  complete: "complete",
  parts: ["forward", "backward", "optimizer", "communication", "data", "python"].map((phase) => ({
    phase,
    column: `${phase}_ns`,
  })),
  line: "device_busy_ns",
};

function encodeSteps(count: number): Uint8Array {
  const parts = Array.from({ length: count }, (_, step) => {
    const scale = step === count - 1 && count > 3 ? 0.45 : 0.94 + 0.12 * random();
    return [88, 62, 19, 16, 21, 16].map((ms) => ms * MS * scale * (0.97 + 0.06 * random()));
  });
  const sums = parts.map((each) => each.reduce((sum, part) => sum + part, 0));
  const starts = sums.map((_, at) => sums.slice(0, at).reduce((sum, part) => sum + part, 0));
  const part = (index: number) => Float64Array.from(parts, (each) => each[index] ?? 0);
  return encodeFrame([
    ["number", Int32Array.from(sums, (_, at) => at + 4)],
    ["cycle", Int32Array.from(sums, () => 0)],
    ["complete", Int32Array.from(sums, (_, at) => (at === count - 1 && count > 3 ? 0 : 1))],
    ["start_ns", Float64Array.from(starts)],
    ["dur_ns", Float64Array.from(sums)],
    ["forward_ns", part(0)],
    ["backward_ns", part(1)],
    ["optimizer_ns", part(2)],
    ["communication_ns", part(3)],
    ["data_ns", part(4)],
    ["python_ns", part(5)],
    ["device_busy_ns", Float64Array.from(sums, (sum) => sum * 0.24)],
  ]);
}

function encodeMemory(steps: number): Uint8Array {
  const lane: string[] = [];
  const rows: [number, number, number][] = [];
  for (const [name, base, height] of [
    ["cuda:0", 0.94e9, 1.15e9],
    ["cpu", 0.21e9, 0.06e9],
  ] as const) {
    for (let at = 0; at < 900; at += 1) {
      const share = (at / 900) * steps;
      const inStep = share - Math.floor(share);
      const wave =
        inStep < 0.42 ? Math.sin((inStep / 0.42) * 1.57) : Math.max(0, 1 - (inStep - 0.42) / 0.4);
      const used =
        base + wave * height * (0.985 + 0.03 * random()) * (share > 1 && share < 2 ? 1 : 0.96);
      lane.push(name);
      rows.push([share * 222 * MS, used, name === "cpu" ? Number.NaN : 2.36e9]);
    }
  }
  const numbers = (index: 0 | 1 | 2) => Float64Array.from(rows, (row) => row[index]);
  return encodeFrame([
    ["lane", lane],
    ["time_ns", numbers(0)],
    ["allocated_bytes", numbers(1)],
    ["reserved_bytes", numbers(2)],
  ]);
}

const KERNEL_COLUMNS: readonly ColumnHeader[] = [
  column("name", "Kernel", "code", "Name of the kernel as the device runs it."),
  column("phase", "Phase", "phase", "Phase of the op that launched it."),
  column("calls", "Calls", "count", "Launches in all recorded steps."),
  column("total_device_ns", "Device", "ns", "Time on the device.", { bar: true }),
  column("mean_device_ns", "Mean", "ns", "Device time divided by calls."),
  column("launched_by", "Launched by", "code", "The op that launched most of them.", {
    minor: true,
  }),
];

function encodeKernels(): Uint8Array {
  const names = [
    GEMM,
    ELEMENTWISE,
    NORM,
    "triton_poi_fused__native_batch_norm_legit_functional_relu_threshold_backward_12",
  ];
  return encodeFrame([
    ["name", names],
    ["phase", ["backward", "forward", "forward", "backward"]],
    ["calls", Int32Array.of(552, 414, 276, 138)],
    ["total_device_ns", Float64Array.of(83.2 * MS, 31.1 * MS, 19.6 * MS, 2.4 * MS)],
    ["mean_device_ns", Float64Array.of(150.7 * US, 75.1 * US, 71 * US, 17.4 * US)],
    [
      "launched_by",
      [
        "aten::convolution_backward",
        "aten::add_",
        "aten::cudnn_batch_norm",
        "CompiledFunctionBackward",
      ],
    ],
  ]);
}

const PROBLEMS: readonly Problem[] = [
  {
    severity: "data_loss",
    code: "kineto.dropped",
    message: "The profiler's buffer was full and kernels at the end of step 6 are missing.",
    count: 214,
    fix: "Record fewer steps with --active 2, or set TORCH_PROFILER buffer sizes higher.",
  },
  {
    severity: "warning",
    code: "step.cut",
    message: "The last step is not complete: the loop ended inside it.",
    count: 1,
    fix: "Raise --active by one, or let the loop run on.",
  },
  {
    severity: "info",
    code: "stack.off",
    message: "Python stacks were not recorded, so ops cannot be shown by source line.",
    count: 1,
    fix: "Add --stack. It costs about 15 % of speed.",
  },
  {
    severity: "info",
    code: "<img src=x onerror=alert(1)>",
    message: "A name with markup stays text: <script>alert(1)</script>",
    count: 3,
    fix: "",
  },
];

function fact(label: string, value: number | string, unit: Unit, note = "", op = ""): Fact {
  return { label, value, unit, note, op, phase: "" };
}

/** A fact about the op that it is named after. */
function opFact(op: string, ratio: number, note: string): Fact {
  return fact(op, ratio, "ratio", note, op);
}

const SECTIONS: readonly Section[] = [
  {
    title: "Time",
    kind: "facts",
    aside: "",
    facts: [
      fact("Mean step", 222.4 * MS, "ns", "3 steps, ± 2.6 ms"),
      fact("GPU busy", 0.24, "ratio", "52.1 ms a step"),
      fact("GPU waits for the host", 0.71, "ratio"),
      fact("Kernel launches", 900, "count", "a step, 60 µs apart"),
    ],
  },
  {
    title: "Heaviest ops by self CPU",
    kind: "facts",
    aside: "",
    facts: [
      opFact("aten::convolution_backward", 0.212, "38.3 ms"),
      opFact("aten::cudnn_convolution", 0.146, "26.2 ms"),
      opFact("aten::empty", 0.118, "21.0 ms"),
    ],
  },
  {
    title: "Memory",
    kind: "facts",
    aside: "",
    facts: [
      fact("Peak on cuda:0", 2.09e9, "bytes", "at 315 ms, step 5"),
      fact("Reserved", 2.36e9, "bytes"),
    ],
  },
  {
    title: "Run",
    kind: "facts",
    aside: "",
    facts: [
      fact("Device", "NVIDIA A100-SXM4-40GB", "text"),
      fact("Schedule", "wait 1, warm up 2, active 3", "text"),
    ],
  },
];

function memoryView(steps: number): SeriesHeader {
  const starts = Array.from({ length: steps }, (_, at) => ({
    lane: "",
    time_ns: at * 222 * MS,
    label: `step ${at + 4}`,
    kind: "step" as const,
  }));
  const peak = { lane: "cuda:0", time_ns: 315 * MS, label: "peak 2.09 GB", kind: "peak" as const };
  return seriesHeader("memory", {
    bands: [
      { name: "allocated_bytes", title: "allocated", unit: "bytes" },
      { name: "reserved_bytes", title: "reserved by the allocator", unit: "bytes" },
    ],
    marks: [...starts, peak],
  });
}

const WEIGHTS = [
  { name: "cpu", title: "CPU", unit: "ns" as const },
  { name: "device", title: "CUDA", unit: "ns" as const },
];

/** The whole report: `ops` rows, `steps` bars, about 44 boxes a layer, and a view that must be pulled. */
export function demoReport(ops = 89, steps = 3, layers = 46): DemoReport {
  const nodes = flameNodes(layers);
  const noGpu =
    "No kernels were recorded on a second device. Add --activities cuda to record them.";
  const packed = packViews(
    [
      factsHeader("overview", { sections: SECTIONS }),
      tableHeader("ops", { count: ops, columns: OP_COLUMNS, sort: "self_cpu_ns" }),
      treeHeader("flame", { weights: WEIGHTS }),
      memoryView(steps),
      tableHeader("kernels", {
        count: 4,
        columns: KERNEL_COLUMNS,
        sort: "total_device_ns",
      }),
      tableHeader("steps", { count: steps, columns: STEP_COLUMNS, bars: STEP_BARS }),
      tableHeader("lines", { empty: noGpu }),
      tableHeader("pulled", { offset: -1, columns: KERNEL_COLUMNS }),
      problemsHeader("notes", { count: PROBLEMS.length, problems: PROBLEMS }),
    ],
    [
      null,
      encodeOps(nodes, ops),
      encodeFlame(nodes),
      encodeMemory(steps),
      encodeKernels(),
      encodeSteps(steps),
      null,
      null,
      null,
    ],
  );
  return { header: header(packed.views, steps), data: packed.data };
}

function header(views: readonly ViewHeader[], steps: number): ReportHeader {
  return {
    version: 4,
    runId: "demo",
    title: "In [4]",
    subtitle: `steps 4–${3 + steps} recorded, stepped by line 3`,
    code: "for batch in loader",
    machine: "A100 · torch 2.13.0 · 40,573 events",
    notice:
      steps > 3
        ? "214 kernels at the end of step 6 are missing: the profiler's buffer was full."
        : "",
    verdict: {
      title: "Host-bound",
      text: [
        { text: "The GPU is busy ", style: "" },
        { text: "52 of 222 ms", style: "strong" },
        { text: " a step (24 %). It waits for ", style: "" },
        { text: "aten::empty", style: "code" },
        { text: " and ", style: "" },
        { text: "cudnn_batch_norm", style: "code" },
        { text: " launches: 900 kernels a step, mean 60 µs apart.", style: "" },
      ],
      code: { line: 12, source: "loss = model(batch).mean()" },
      doubts: ["Recorded steps took 1.6 times as long as others."],
    },
    views,
    exports: [
      { name: "html", title: "HTML file", filename: "run.html", mime: "text/html" },
      { name: "trace", title: "Chrome trace", filename: "run.json.gz", mime: "application/gzip" },
    ],
  };
}
