/** What to change: one card for each piece of advice, with its saving and how sure that is. */

import { formatBytes, formatNs, unbroken } from "../../base/format";
import { revealIn, showView } from "../../state/store";
import type { Card } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { Marked } from "../common/parts";
import { LineDiff } from "./line-diff";
import { TryCard } from "./try-card";

/** A card with its number, by which `try_advice` knows it. */
export interface NumberedCard {
  readonly card: Card;
  readonly number: number;
}

export function numberedCards(cards: readonly Card[]): readonly NumberedCard[] {
  return cards.map((card, index) => ({ card, number: index + 1 }));
}

interface CardsProps {
  readonly report: ReportContext;
  readonly cards: readonly NumberedCard[];
  /** Without any, savings are those of the whole recording. */
  readonly hasSteps: boolean;
}

/** Says so where there is no advice, as that is an answer, too. */
export function NoCards({ isDoubted }: { readonly isDoubted: boolean }) {
  const found = isDoubted ? "Nothing besides what is said above" : "Nothing found";
  return (
    <section class="tp-facts tp-cards" data-tp-no-advice>
      <h3>What to change</h3>
      <p class="tp-aside">{found}: no rule for advice applies to this recording.</p>
    </section>
  );
}

/** The pieces of advice that stand nowhere else. */
export function Cards({ report, cards, hasSteps }: CardsProps) {
  if (cards.length === 0) return null;
  return (
    <section class="tp-facts tp-cards">
      <h3 class="tp-split">
        What to change
        <span class="tp-aside">saving {hasSteps ? "per step" : "in all"}</span>
      </h3>
      <ol>
        {cards.map(({ card, number }) => (
          <li key={`${number}-${card.rule}`} class="tp-card">
            <span class="tp-card-number">{number}</span>
            <div>
              <Marked text={card.title} />
              {fixOf(card) !== "" && ": "}
              <Marked text={fixOf(card)} />
              {card.place !== "" && <Place report={report} card={card} />}
              <LineDiff changes={card.changes} />
              <p class="tp-aside">
                <Marked text={card.evidence} />
              </p>
            </div>
            <Saving report={report} card={card} number={number} />
          </li>
        ))}
      </ol>
    </section>
  );
}

// How many are named before the code.
const MOST_FIRST = 2;

/** The changes with the largest savings, where their lines are out of sight at first. */
export function FirstCards({ report, cards }: Omit<CardsProps, "hasSteps">) {
  const first = cards
    .filter(({ card }) => card.saving_ns !== null)
    .toSorted((one, other) => one.number - other.number)
    .slice(0, MOST_FIRST);
  if (first.length === 0) return null;
  return (
    <ol class="tp-first-cards">
      {first.map(({ card, number }) => (
        <li key={number}>
          <span class="tp-card-number">{number}</span>
          <Marked text={card.title} />
          <Place report={report} card={card} />: <strong>{unbroken(savingOf(card))}</strong>
        </li>
      ))}
    </ol>
  );
}

/** The change of a line, below it: what to write instead, and why. */
export function Change({ report, card, number }: NumberedCard & WithReport) {
  const fix = card.is_whole ? "" : card.fix || card.title;
  return (
    <li class="tp-card tp-line-change">
      <span class="tp-card-number">{number}</span>
      <div>
        <LineDiff changes={card.changes} />
        <Marked text={fix} />
        <p>
          <Marked text={fix === card.title ? "" : `${card.title}. `} />
          <span class="tp-aside">
            <Marked text={card.evidence} />
          </span>
        </p>
      </div>
      <Saving report={report} card={card} number={number} />
    </li>
  );
}

/** What to write instead, where the changed lines do not say all of it. */
function fixOf({ fix, is_whole }: Card): string {
  return is_whole ? "" : fix;
}

interface WithReport {
  readonly report: ReportContext;
}

function Saving({ report, card, number }: NumberedCard & WithReport) {
  return (
    <div class="tp-card-saving">
      <strong>{savingOf(card)}</strong>
      <div class="tp-aside">
        {card.certainty} <span aria-hidden="true">{dotsOf(card.level)}</span>
      </div>
      <TryCard report={report} card={card} number={number} />
    </div>
  );
}

function savingOf({ saving_ns: time, saving_bytes: memory, certainty, per }: Card): string {
  // A wait or a time that was recorded is the most that can be saved.
  if (time === 0) return certainty === "measured here" ? "nothing" : "nothing more";
  if (time !== null && certainty === "measured here") return formatNs(time);
  if (time !== null) return `up to ${formatNs(time)}`;
  if (memory !== null) return `${formatBytes(memory)}${per}`;
  return certainty === "guess" ? "not known" : "";
}

function dotsOf(level: number): string {
  return "●".repeat(level) + "○".repeat(3 - level);
}

function Place({ report, card }: { readonly report: ReportContext; readonly card: Card }) {
  const view = report.source.header.views.find(
    ({ name, empty }) => name === card.view && empty === null,
  );
  if (view === undefined) return <bdi class="tp-aside">{`${card.at} ${card.place}`}</bdi>;
  const open = () => {
    if (card.spot === "") showView(report.store, view.tab);
    else revealIn(report.store, view, card.spot);
  };
  return (
    <>
      {`${card.at} `}
      <Button class="tp-link" onClick={open}>
        <bdi>{card.place}</bdi>
      </Button>
    </>
  );
}
