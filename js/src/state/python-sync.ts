/** The data from Python: the header, and one frame per view, decoded on first use. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { failure, type Result, success } from "../base/result";
import { decodeFrame, decodeLate, viewBytes } from "../wire/decode";
import type { Frame } from "../wire/frame";
import {
  type FramedHeader,
  parseHeader,
  type ReportHeader,
  type ViewHeader,
  type WaitingHeader,
} from "../wire/header";
import type { Host } from "../wire/host";
import { canAnswer, pull } from "../wire/pull";

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
  readonly view: FramedHeader;
  readonly frame: Frame;
}

export type LateState =
  | { readonly kind: "loading" }
  | Failed
  | { readonly kind: "ready"; readonly late: LateView };

export interface ReportSource {
  readonly header: ReportHeader;
  /** False in a saved file: nothing can be pulled or exported. */
  readonly canAnswer: boolean;
  /** The state of a view's data; the first call starts decoding or pulling. */
  frame(view: FramedHeader): ReadonlySignal<FrameState>;
  /** The state of a view that is built on request; the first call requests it. */
  late(view: WaitingHeader): ReadonlySignal<LateState>;
  retryLate(view: WaitingHeader): void;
  /** Retries after a failure. */
  retry(view: FramedHeader): void;
  pullExport(name: string): Promise<Result<Uint8Array>>;
}

const NOTHING = "Nothing was recorded for this view.";

/**
 * Opens the current data of the host. `isLost` says whether it is known that no kernel would answer; `abort` ends all
 * pending requests.
 */
export function openReport(
  host: Host,
  isLost: () => boolean,
  abort: AbortSignal,
): Result<ReportSource> {
  const parsed = parseHeader(host.get("_header"));
  if (!parsed.ok) return failure(parsed.message);
  const container = host.get("_data");
  const ask = asker(host, isLost, abort);
  const frames = new States<FramedHeader, FrameState>(
    (view) => embeddedState(view, container),
    (view, state) => ask(view.name, state, (bytes) => stateOf(decodeFrame(bytes))),
  );
  const lates = new States<WaitingHeader, LateState>(
    () => ({ kind: "loading" }),
    (view, state) => ask(view.name, state, (bytes) => lateStateOf(view, bytes)),
  );
  return success({
    header: parsed.value,
    canAnswer: canAnswer(host),
    frame: (view) => frames.of(view),
    retry: (view) => frames.retry(view),
    late: (view) => lates.of(view),
    retryLate: (view) => lates.retry(view),
    pullExport: (name) => pull(host, `export:${name}`, { signal: abort, isLost }),
  });
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
 * A function that asks the kernel for the bytes of a view. While the kernel is slow the state says so, and changes when
 * the reply comes after all.
 */
function asker(host: Host, isLost: () => boolean, abort: AbortSignal) {
  const pending = new Map<string, AbortController>();
  return <S>(name: string, state: Signal<S | Failed>, read: (bytes: Uint8Array) => S | Failed) => {
    pending.get(name)?.abort();
    const own = new AbortController();
    pending.set(name, own);
    abort.addEventListener("abort", () => own.abort(), { signal: own.signal });
    const onSlow = (message: string) => {
      state.value = failed(message);
    };
    void pull(host, name, { signal: own.signal, isLost, onSlow }).then((bytes) => {
      if (own.signal.aborted) return;
      state.value = bytes.ok ? read(bytes.value) : failed(bytes.message);
    });
  };
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
