/** A whole run that was watched: how long its steps took and what else is known of them, over time, and slow steps. */

import { formatNs, formatValue } from "../../base/format";
import { revealIn } from "../../state/store";
import type { Fact, Lane, Section } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";

const HEIGHT = 36;
// Space over the largest value.
const HEADROOM = 1.08;

interface RunStripProps {
  readonly report: ReportContext;
  readonly section: Section;
}

export function RunStrip({ report, section }: RunStripProps) {
  const { lanes, marks, facts, title, aside } = section;
  return (
    <section class="tp-facts tp-run" data-tp-run={lanes.length}>
      <h3 class="tp-split">
        {title}
        <span class="tp-aside">{aside}</span>
      </h3>
      {lanes.map((lane) => (
        <LaneRow key={lane.title} lane={lane} />
      ))}
      {marks.length > 0 && <Recorded lanes={lanes} marks={marks} />}
      {facts.length > 0 && (
        <ul class="tp-run-slow">
          {facts.map((fact) => (
            <SlowStep key={fact.label} report={report} fact={fact} />
          ))}
        </ul>
      )}
    </section>
  );
}

function LaneRow({ lane: { title, unit, values, most } }: { readonly lane: Lane }) {
  const scale = HEIGHT / Math.max(most * HEADROOM, Number.MIN_VALUE);
  const text = formatValue(most, unit);
  const bars = values
    .map((value, part) =>
      value === null ? "" : `M${part},${HEIGHT}v${(-value * scale).toFixed(2)}h1V${HEIGHT}z`,
    )
    .join("");
  return (
    <div class="tp-run-lane">
      <span class="tp-run-title">{title}</span>
      <svg
        viewBox={`0 0 ${values.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title} over the run, at most ${text}`}
      >
        <path class="tp-run-part" d={bars} />
      </svg>
      <span class="tp-run-most">{text}</span>
    </div>
  );
}

/** Where steps were recorded, on the same axis. */
function Recorded({ lanes, marks }: Pick<Section, "lanes" | "marks">) {
  const parts = lanes[0]?.values.length ?? 1;
  return (
    <div class="tp-run-lane">
      <span class="tp-run-title">Recorded</span>
      <svg
        class="tp-run-recorded"
        viewBox={`0 0 ${parts} 4`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Steps were recorded in ${marks.length} of ${parts} parts of the run`}
      >
        <path d={marks.map((part) => `M${part},4v-4h1v4z`).join("")} />
      </svg>
    </div>
  );
}

function SlowStep({ report, fact }: { readonly report: ReportContext; readonly fact: Fact }) {
  const took = typeof fact.value === "number" ? formatNs(fact.value) : "";
  return (
    <li>
      <strong>{fact.label}</strong> {took}, {fact.note}{" "}
      {fact.spot !== "" && (
        <Button class="tp-link" onClick={() => revealIn(report.store, fact.view, fact.spot)}>
          show the line
        </Button>
      )}
    </li>
  );
}
