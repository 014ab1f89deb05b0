/** The data from Python: the header, and one frame per view, decoded on first use. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { keptBy } from "../base/kept";
import { failure, type Result, success } from "../base/result";
import type { Connection } from "../wire/connection";
import { decodeFrame, decodeLate, viewBytes } from "../wire/decode";
import type { Frame } from "../wire/frame";
import {
  type ExportHeader,
  type FramedHeader,
  type LateHeader,
  parseHeader,
  type ReportHeader,
  type SlicesHeader,
  type ViewHeader,
  type WaitingHeader,
} from "../wire/header";
import { type Host, isSaved } from "../wire/host";
import { askOtherRuns, type OtherRun } from "../wire/other-runs";
import { handOver, type OpeningPage } from "../wire/perfetto";
import { type Part, pull } from "../wire/pull";
import { ask as askKernel, type Question } from "../wire/questions";
import { canAnswer, request } from "../wire/request";
import { bytesOfView } from "../wire/view-bytes";
import { type Asked, askWhatIf } from "../wire/what-if";
import { Latest } from "./latest";
import { createSliceSource, type SliceSource } from "./slice-source";

interface Failed {
  readonly kind: "failed";
  readonly message: string;
}

export type FrameState =
  | { readonly kind: "empty"; readonly sentence: string }
  | { readonly kind: "loading" }
  | Failed
  | { readonly kind: "ready"; readonly frame: Frame };

/** A view that described itself when it came. */
export interface LateView {
  readonly view: LateHeader;
  readonly frame: Frame;
}

export type LateState =
  | { readonly kind: "loading" }
  | Failed
  | { readonly kind: "ready"; readonly late: LateView };

export interface ReportSource {
  readonly header: ReportHeader;
  /** False in a saved file: nothing can be pulled. */
  readonly canAnswer: boolean;
  /** What can be exported from here: what a kernel can make, or what a saved file contains. */
  readonly exports: readonly ExportHeader[];
  /** The state of a view's data; the first call starts decoding or pulling. */
  frame(view: FramedHeader): ReadonlySignal<FrameState>;
  /** Whether reading a view's data starts nothing: it is embedded, or it was asked for. */
  isAtHand(view: FramedHeader): boolean;
  /** The state of a view that is built on request; the first call requests it. */
  late(view: WaitingHeader): ReadonlySignal<LateState>;
  retryLate(view: WaitingHeader): void;
  /** Retries after a failure. */
  retry(view: FramedHeader): void;
  /** Where to ask for parts of a timeline; null when the page has all of it, or all that it can get. */
  slices(view: SlicesHeader): SliceSource | null;
  /** Where to ask for a view in a range of time; null for a view that nothing can compute for one. */
  ranged(view: ViewHeader): Latest<Part, LateView> | null;
  /** Shows the report of a rank in this place, or all ranks again for `ALL_RANKS`. */
  openRank(rank: number): Promise<Result<null>>;
  /** Whether the kernel can be asked to compare this run with others. */
  readonly canCompare: boolean;
  /** The runs that this one can be compared with, now. */
  otherRuns(): Promise<Result<readonly OtherRun[]>>;
  /**
   * Shows what changed since a run in this place, or with `isSwapped` from this one to it; "" is the run that
   * is compared already.
   */
  compareWith(run: string, isSwapped: boolean): Promise<Result<null>>;
  /** Whether the kernel can be asked to let other steps count. */
  readonly canChooseSteps: boolean;
  /** Shows the report in which only these steps count, by the rows of their table, in this place. */
  countSteps(rows: readonly number[]): Promise<Result<null>>;
  /** What a step would take if what has this name were twice as fast, in words; needs a kernel that answers. */
  whatIf(name: Asked): Promise<Result<string>>;
  /** Whether the kernel can be asked to measure advice. */
  readonly canTry: boolean;
  /** Measures the advice of a card, by its number from 1, and shows the report with what was found in this place. */
  tryCard(number: number): Promise<Result<null>>;
  pullExport(name: string): Promise<Result<Uint8Array>>;
  /** Opens Perfetto with an export; must be called while a click is handled. */
  openInPerfetto(page: OpeningPage, name: string): Promise<Result<null>>;
}

export const ALL_RANKS = -1;
const NOTHING = "Nothing was recorded for this view.";
const NOT_OFFERED = "This report does not offer this export.";
// The kernel analyses the whole trace for a file, and may have a running cell to finish first.
const EXPORT_WITHIN_MS = 120_000;

/** Opens the current data of the host; `abort` ends all pending requests. */
export function openReport(
  host: Host,
  connection: Connection,
  abort: AbortSignal,
): Result<ReportSource> {
  const parsed = parseHeader(host.get("_header"));
  if (!parsed.ok) return failure(parsed.message);
  const container = host.get("_data");
  const ask = asker(host, connection, abort);
  const frames = new States<FramedHeader, FrameState>(
    (view) => embeddedState(view, container),
    (view, state) => ask(view.name, state, (bytes) => stateOf(decodeFrame(bytes))),
  );
  const lates = new States<WaitingHeader, LateState>(
    () => ({ kind: "loading" }),
    (view, state) => ask(view.name, state, (bytes) => lateStateOf(view, bytes)),
  );
  const open = opener(host, connection, abort);
  const offered = offeredExports(host, parsed.value, connection, abort);
  return success({
    header: parsed.value,
    canAnswer: canAnswer(host),
    frame: (view) => frames.of(view),
    isAtHand: (view) => view.offset >= 0 || frames.has(view),
    retry: (view) => frames.retry(view),
    slices: sliceSources(host, connection, abort),
    late: (view) => lates.of(view),
    retryLate: (view) => lates.retry(view),
    ranged: rangedViews(host, parsed.value, connection, abort),
    openRank: (rank) => open({ kind: "open", rank }),
    canCompare: parsed.value.can_compare && canAnswer(host),
    otherRuns: () => askOtherRuns(host, { signal: abort, connection }),
    compareWith: (run, isSwapped) => open({ kind: "compare", run, is_swapped: isSwapped }),
    canChooseSteps: parsed.value.can_choose_steps && canAnswer(host),
    countSteps: (rows) => open({ kind: "count", rows }),
    whatIf: (name) => askWhatIf(host, name, { signal: abort, connection }),
    canTry: parsed.value.can_try && canAnswer(host),
    tryCard: (number) => open({ kind: "try", card: number }),
    ...offered,
  });
}

/** Where to ask for parts of timelines. */
function sliceSources(
  host: Host,
  connection: Connection,
  signal: AbortSignal,
): ReportSource["slices"] {
  const sourceOf = keptBy(
    ({ name }: SlicesHeader) => name,
    (view) => {
      // The threads in time order are a view of the same slices, with windows of their own.
      const askAbout = (question: Question) =>
        askKernel(host, view.tab, question, { signal, connection });
      return createSliceSource(view, askAbout, signal);
    },
  );
  return (view) => (canAnswer(host) ? sourceOf(view) : null);
}

/** Where to ask for views in a range of time. */
function rangedViews(
  host: Host,
  { ranged }: ReportHeader,
  connection: Connection,
  signal: AbortSignal,
): ReportSource["ranged"] {
  const latestOf = keptBy(
    ({ name }: ViewHeader) => name,
    (view) =>
      new Latest<Part, LateView>(async (part, onSlow) => {
        const bytes = await pull(host, view.name, { signal, connection, onSlow }, part);
        return bytes.ok ? decodeLate(view, bytes.value) : bytes;
      }, signal),
  );
  return (view) => {
    const canCompute = canAnswer(host) && !connection.isLost();
    return canCompute && ranged.includes(view.name) ? latestOf(view) : null;
  };
}

/** A function that shows another page in this place. */
function opener(host: Host, connection: Connection, signal: AbortSignal) {
  return (content: object) =>
    request(host, content, ({ kind }) => (kind === "opened" ? success(null) : null), {
      signal,
      connection,
      timeoutMs: EXPORT_WITHIN_MS,
    });
}

/** What can be exported, and how. */
function offeredExports(
  host: Host,
  { exports: known, title }: ReportHeader,
  connection: Connection,
  signal: AbortSignal,
): Pick<ReportSource, "exports" | "pullExport" | "openInPerfetto"> {
  const exports = isSaved(host) || canAnswer(host) ? known : [];
  const pullExport = async (name: string) =>
    exports.some((entry) => entry.name === name)
      ? exportedBytes(host, name, connection, signal)
      : failure(NOT_OFFERED);
  return {
    exports,
    pullExport,
    openInPerfetto: async (page, name) => {
      const entry = exports.find((each) => each.name === name && each.kind === "perfetto");
      if (entry === undefined) return failure(NOT_OFFERED);
      const pullTrace = () => pullExport(name);
      return handOver(page, { title, fileName: entry.filename, pull: pullTrace, signal });
    },
  };
}

/** One state per view, asked for when it is first read. */
class States<V extends ViewHeader, S extends { readonly kind: string }> {
  readonly #first: (view: V) => S;
  readonly #load: (view: V, state: Signal<S>) => void;
  readonly #known = new Map<string, Signal<S>>();

  constructor(first: (view: V) => S, load: (view: V, state: Signal<S>) => void) {
    this.#first = first;
    this.#load = load;
  }

  has(view: V): boolean {
    return this.#known.has(view.name);
  }

  of(view: V): Signal<S> {
    const known = this.#known.get(view.name);
    if (known !== undefined) return known;
    const state = signal(this.#first(view));
    this.#known.set(view.name, state);
    if (state.value.kind === "loading") this.#load(view, state);
    return state;
  }

  retry(view: V): void {
    const state = this.#known.get(view.name);
    if (state?.value.kind !== "failed") return;
    state.value = this.#first(view);
    if (state.value.kind === "loading") this.#load(view, state);
  }
}

/**
 * A function that asks for the bytes of a view. While the kernel is slow the state says so, and changes when
 * the reply comes after all.
 */
function asker(host: Host, connection: Connection, abort: AbortSignal) {
  const pending = new Map<string, AbortController>();
  return <S>(name: string, state: Signal<S | Failed>, read: (bytes: Uint8Array) => S | Failed) => {
    pending.get(name)?.abort();
    const own = new AbortController();
    pending.set(name, own);
    abort.addEventListener("abort", () => own.abort(), { signal: own.signal });
    const onSlow = (message: string) => {
      state.value = failed(message);
    };
    void bytesOfView(host, name, { signal: own.signal, connection, onSlow }).then((bytes) => {
      if (own.signal.aborted) return;
      state.value = bytes.ok ? read(bytes.value) : failed(bytes.message);
    });
  };
}

/** The trace that a saved file contains, or what the kernel makes. */
async function exportedBytes(
  host: Host,
  name: string,
  connection: Connection,
  signal: AbortSignal,
): Promise<Result<Uint8Array>> {
  if (!isSaved(host)) {
    return pull(host, `export:${name}`, { signal, connection, timeoutMs: EXPORT_WITHIN_MS });
  }
  const trace = host.get("_trace");
  return trace instanceof Uint8Array ? success(trace) : failure(NOT_OFFERED);
}

function embeddedState(view: FramedHeader, container: unknown): FrameState {
  if (view.empty !== null) return { kind: "empty", sentence: view.empty };
  if (view.offset < 0) return { kind: "loading" };
  if (view.length === 0) return { kind: "empty", sentence: NOTHING };
  return stateOf(decodeFrame(viewBytes(container, view)));
}

function stateOf(decoded: Result<Frame>): FrameState {
  if (!decoded.ok) return failed(decoded.message);
  if (decoded.value.rows === 0) return { kind: "empty", sentence: NOTHING };
  return { kind: "ready", frame: decoded.value };
}

function lateStateOf(view: WaitingHeader, bytes: Uint8Array): LateState {
  const made = decodeLate(view, bytes);
  return made.ok ? { kind: "ready", late: made.value } : failed(made.message);
}

function failed(message: string): Failed {
  return { kind: "failed", message };
}
