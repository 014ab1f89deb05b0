/** The data from Python: the header, and one frame per view, decoded on first use. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { failure, type Result, success } from "../base/result";
import { decodeFrame, decodeLate, viewBytes } from "../wire/decode";
import type { Frame } from "../wire/frame";
import {
  type ExportHeader,
  type FramedHeader,
  parseHeader,
  type ReportHeader,
  type WaitingHeader,
} from "../wire/header";
import { type Host, isSaved } from "../wire/host";
import { handOver, type OpeningPage } from "../wire/perfetto";
import { canAnswer, pull } from "../wire/pull";

export type FrameState =
  | { readonly kind: "empty"; readonly sentence: string }
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "ready"; readonly frame: Frame };

/** A view that described itself when it came. */
export interface LateView {
  readonly view: FramedHeader;
  readonly frame: Frame;
}

export type LateState =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "ready"; readonly late: LateView };

export interface ReportSource {
  readonly header: ReportHeader;
  /** False in a saved file: nothing can be pulled. */
  readonly canAnswer: boolean;
  /** What can be exported from here: what a kernel can make, or what a saved file contains. */
  readonly exports: readonly ExportHeader[];
  /** The state of a view's data; the first call starts decoding or pulling. */
  frame(view: FramedHeader): ReadonlySignal<FrameState>;
  /** The state of a view that is built on request; the first call requests it. */
  late(view: WaitingHeader): ReadonlySignal<LateState>;
  retryLate(view: WaitingHeader): void;
  /** Retries after a failure. */
  retry(view: FramedHeader): void;
  pullExport(name: string): Promise<Result<Uint8Array>>;
  /** Opens Perfetto with an export; must be called while a click is handled. */
  openInPerfetto(page: OpeningPage, name: string): Promise<Result<null>>;
}

const NOTHING = "Nothing was recorded for this view.";
const NOT_OFFERED = "This report does not offer this export.";
// The kernel analyses the whole trace for a file, and may have a running cell to finish first.
const EXPORT_WITHIN_MS = 120_000;

/** Opens the current data of the host; `signal` aborts all pending requests. */
export function openReport(host: Host, abort: AbortSignal): Result<ReportSource> {
  const parsed = parseHeader(host.get("_header"));
  if (!parsed.ok) return failure(parsed.message);
  const container = host.get("_data");
  const states = new Map<string, Signal<FrameState>>();
  const frame = (view: FramedHeader) => {
    const known = states.get(view.name);
    if (known) return known;
    const state = signal<FrameState>(embeddedState(view, container));
    states.set(view.name, state);
    if (state.value.kind === "loading") void pullInto(state, host, view, abort);
    return state;
  };
  const retry = (view: FramedHeader) => {
    const state = states.get(view.name);
    if (state?.value.kind !== "failed") return;
    state.value = embeddedState(view, container);
    if (state.value.kind === "loading") void pullInto(state, host, view, abort);
  };
  const lateStates = new Map<string, Signal<LateState>>();
  const late = (view: WaitingHeader) => {
    const known = lateStates.get(view.name);
    if (known) return known;
    const state = signal<LateState>({ kind: "loading" });
    lateStates.set(view.name, state);
    void pullLate(state, host, view, abort);
    return state;
  };
  const retryLate = (view: WaitingHeader) => {
    const state = lateStates.get(view.name);
    if (state?.value.kind !== "failed") return;
    state.value = { kind: "loading" };
    void pullLate(state, host, view, abort);
  };
  const exports = isSaved(host) || canAnswer(host) ? parsed.value.exports : [];
  const pullExport = async (name: string) =>
    exports.some((entry) => entry.name === name)
      ? exportedBytes(host, name, abort)
      : failure(NOT_OFFERED);
  return success({
    late,
    retryLate,
    header: parsed.value,
    canAnswer: canAnswer(host),
    exports,
    frame,
    retry,
    pullExport,
    openInPerfetto: async (page, name) => {
      const entry = exports.find((each) => each.name === name && each.kind === "perfetto");
      if (entry === undefined) return failure(NOT_OFFERED);
      const { title } = parsed.value;
      const trace = {
        title,
        fileName: entry.filename,
        pull: () => pullExport(name),
        signal: abort,
      };
      return handOver(page, trace);
    },
  });
}

/** The trace that a saved file contains, or what the kernel makes. */
async function exportedBytes(
  host: Host,
  name: string,
  signal: AbortSignal,
): Promise<Result<Uint8Array>> {
  if (!isSaved(host)) return pull(host, `export:${name}`, { signal, timeoutMs: EXPORT_WITHIN_MS });
  const trace = host.get("_trace");
  return trace instanceof Uint8Array ? success(trace) : failure(NOT_OFFERED);
}

function embeddedState(view: FramedHeader, container: unknown): FrameState {
  if (view.empty !== null) return { kind: "empty", sentence: view.empty };
  if (view.offset < 0) return { kind: "loading" };
  if (view.length === 0) return { kind: "empty", sentence: NOTHING };
  return stateOf(decodeFrame(viewBytes(container, view)));
}

async function pullInto(
  state: Signal<FrameState>,
  host: Host,
  view: FramedHeader,
  abort: AbortSignal,
): Promise<void> {
  const bytes = await pull(host, view.name, { signal: abort });
  if (abort.aborted) return;
  state.value = bytes.ok ? stateOf(decodeFrame(bytes.value)) : failed(bytes.message);
}

async function pullLate(
  state: Signal<LateState>,
  host: Host,
  view: WaitingHeader,
  abort: AbortSignal,
): Promise<void> {
  const bytes = await pull(host, view.name, { signal: abort });
  if (abort.aborted) return;
  const made = bytes.ok ? decodeLate(view, bytes.value) : bytes;
  state.value = made.ok ? { kind: "ready", late: made.value } : failed(made.message);
}

function stateOf(decoded: Result<Frame>): FrameState {
  if (!decoded.ok) return failed(decoded.message);
  if (decoded.value.rows === 0) return { kind: "empty", sentence: NOTHING };
  return { kind: "ready", frame: decoded.value };
}

function failed(message: string): { readonly kind: "failed"; readonly message: string } {
  return { kind: "failed", message };
}
