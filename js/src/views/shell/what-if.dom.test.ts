import { afterEach, expect, it } from "vitest";
import { find, HOSTILE, hostOf, type Mounted, mount, settle } from "../../../test/report";

let mounted: Mounted | null = null;

afterEach(() => {
  mounted?.unmount();
  document.body.replaceChildren();
});

const button = () =>
  [...document.body.querySelectorAll<HTMLButtonElement>(".tp-links button")].find(
    ({ textContent }) => textContent === "If 2× faster",
  );

async function choose(row: number): Promise<void> {
  find(document.body, `[data-tp-row="${row}"]`).click();
  await settle();
}

async function asked(row: number): Promise<Readonly<Record<string, unknown>>> {
  mounted = mount(hostOf());
  await settle();
  await choose(row);
  button()?.click();
  await settle();
  return mounted.host.sent.at(-1) as Readonly<Record<string, unknown>>;
}

it("asks what a step would take if the selection were twice as fast, and says the answer in its place", async () => {
  const question = await asked(0);
  const name = find(document.body, '.tp-rows [aria-selected="true"] .tp-name').textContent;
  expect(question).toMatchObject({ kind: "what_if", name });
  const text = `2× faster: 222 ms → 187 ms per step ${HOSTILE[0]}`;
  mounted?.host.emit("msg:custom", { kind: "what_if", id: question.id, text }, []);
  await settle();
  expect(find(document.body, ".tp-links [role=status]").textContent).toBe(text);
  expect(button()).toBeUndefined();
});

it("says why there is no answer, and asks again for another selection", async () => {
  const question = await asked(0);
  mounted?.host.emit("msg:custom", { kind: "error", id: question.id, message: "No." }, []);
  await settle();
  expect(find(document.body, ".tp-links [role=status]").textContent).toBe("No.");
  await choose(1);
  expect(button()).toBeDefined();
});
