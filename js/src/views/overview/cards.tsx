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
  /** Those whose titles stand beside the verdict already. */
  readonly first: readonly NumberedCard[];
  /** Without any, savings are those of the whole recording. */
  readonly hasSteps: boolean;
  readonly title?: string | undefined;
}

const TITLE = "What to change";

/** What stands where no rule for advice applies. */
export function NoCards({ report }: WithReport) {
  return (
    <section class="tp-facts" data-tp-no-advice>
      <h3>{TITLE}</h3>
      <p>
        <Marked text={report.source.header.verdict.without_advice} />
      </p>
    </section>
  );
}

function Title({ hasSteps, title = TITLE }: Pick<CardsProps, "hasSteps" | "title">) {
  return (
    <h3 class="tp-split">
      {title}
      <span class="tp-aside">saving {hasSteps ? "per step" : "in all"}</span>
    </h3>
  );
}

/** The pieces of advice that stand nowhere else. */
export function Cards({ report, cards, first, hasSteps, title }: CardsProps) {
  if (cards.length === 0) return null;
  return (
    <section class="tp-facts tp-cards">
      <Title hasSteps={hasSteps} title={title} />
      <ol>
        {cards.map((each) => (
          <li key={`${each.number}-${each.card.rule}`} class="tp-card">
            <span class="tp-card-number">{each.number}</span>
            <div>
              <Marked text={wordsOf(each, first)} />
              <Place report={report} card={each.card} />
              <LineDiff changes={each.card.changes} />
              <p class="tp-aside">
                <Marked text={each.card.evidence} />
              </p>
            </div>
            <Saving report={report} {...each} />
          </li>
        ))}
      </ol>
    </section>
  );
}

// How many are named beside the verdict: those with a known saving are rarely more, so that no number below is new.
const MOST_FIRST = 4;

/** The changes that save most; without any of which that is known, the first. */
export function firstCards(cards: readonly NumberedCard[]): readonly NumberedCard[] {
  const known = cards.filter(({ card }) => card.saving_ns !== null);
  return (known.length > 0 ? known : cards).slice(0, MOST_FIRST);
}

/** What to do, and what with; only the second where the first stands beside the verdict. */
function wordsOf(each: NumberedCard, first: readonly NumberedCard[]): string {
  const { title } = each.card;
  const fix = fixOf(each.card);
  if (fix === "" || fix === title) return title;
  return first.includes(each) ? fix : `${title}: ${fix}`;
}

/** What to do, beside the verdict: the lines and the reasons stand below. */
export function FirstCards({ report, cards, hasSteps }: Omit<CardsProps, "first">) {
  return (
    <section class="tp-facts">
      <Title hasSteps={hasSteps} />
      <ol class="tp-first-cards">
        {cards.map(({ card, number }) => (
          <li key={number}>
            <span class="tp-card-number">{number}</span>
            <Marked text={card.title} />
            <Place report={report} card={card} />
            {": "}
            {savingOf(card) === "" ? "gain not known" : <strong>{unbroken(savingOf(card))}</strong>}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The change of a line, below it: what to write instead, and why, which opens where it is a guess. */
export function Change({
  report,
  card,
  number,
  isFirst,
}: NumberedCard & WithReport & { readonly isFirst: boolean }) {
  const fix = fixOf(card) || card.title;
  return (
    <li class="tp-card tp-line-change">
      <span class="tp-card-number">{number}</span>
      <div>
        <LineDiff changes={card.changes} />
        <details
          key={String(report.look.value.isPrinted)}
          open={card.certainty !== "guess" || report.look.value.isPrinted}
        >
          <summary>
            <Marked text={fix} />
          </summary>
          <p>
            <Marked text={fix === card.title || isFirst ? "" : `${card.title}. `} />
            <span class="tp-aside">
              <Marked text={card.evidence} />
            </span>
          </p>
        </details>
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
  return memory === null ? "" : `${formatBytes(memory)}${per}`;
}

function dotsOf(level: number): string {
  return "●".repeat(level) + "○".repeat(3 - level);
}

function Place({ report, card }: { readonly report: ReportContext; readonly card: Card }) {
  const view = report.source.header.views.find(
    ({ name, empty }) => name === card.view && empty === null,
  );
  if (card.place === "") return null;
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
