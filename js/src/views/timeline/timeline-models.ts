/** The models of a timeline: of the whole recording, of what is to be seen, and of what belongs to the selection. */

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { displayName } from "../../base/names";
import type { SliceSource } from "../../state/slice-source";
import type { Frame } from "../../wire/frame";
import type { SlicesHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { createTimelineModel, type TimelineModel, timelineModelOf } from "./timeline-model";

/** All three are the same where the page has the whole recording. */
export interface TimelineModels {
  readonly overview: TimelineModel;
  readonly picture: ReadonlySignal<TimelineModel>;
  /** The selected slice and what belongs to it; null before that is there. */
  readonly detail: ReadonlySignal<TimelineModel | null>;
  /** The layer whose threads the picture has; null for all. */
  readonly layer: ReadonlySignal<string | null>;
  /** The slice that `detail` is about; null where it is about all of them. */
  readonly detailed: ReadonlySignal<number | null>;
  /** Where to ask for more; null where there is no more. */
  readonly source: SliceSource | null;
}

/** The models of a view; `frame` is that of the page. */
export function createTimelineModels(
  { source: reportSource, titleOf }: ReportContext,
  view: SlicesHeader,
  frame: Frame,
): TimelineModels {
  const overview = timelineModelOf(frame, view, titleOf);
  const source = reportSource.slices(view);
  if (source === null) return wholeModels(overview);
  const made = new WeakMap<Frame, TimelineModel>();
  const modelOf = (part: Frame, bucket: number) => {
    const known = made.get(part);
    if (known !== undefined) return known;
    const name = (each: string) => displayName(titleOf(each));
    const model = createTimelineModel(view, part, name, overview, bucket);
    made.set(part, model);
    return model;
  };
  const { shown } = source.windows;
  const { answered } = source.slice;
  return {
    overview,
    picture: computed(() =>
      shown.value === null ? overview : modelOf(shown.value.frame, shown.value.bucket),
    ),
    detail: computed(() => (answered.value === null ? null : modelOf(answered.value.answer, 0))),
    layer: computed(() => shown.value?.layer ?? null),
    detailed: computed(() => answered.value?.wish.slice ?? -1),
    source,
  };
}

/** The models where the page has all there is. */
function wholeModels(model: TimelineModel): TimelineModels {
  return {
    overview: model,
    picture: signal(model),
    detail: signal(model),
    layer: signal(null),
    // Of an excerpt, nothing more is known of any slice than what its row says.
    detailed: signal(model.view.excerpt === null ? null : -1),
    source: null,
  };
}
