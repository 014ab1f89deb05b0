/** Chooses the component that shows a view. */

import { assertNever } from "../../base/assert";
import type { Shape, ViewHeader } from "../../wire/header";
import type { ViewComponent } from "../common/context";
import { FlameView } from "../flame/flame";
import { NotesView } from "../notes/notes";
import { OverviewView } from "../overview/overview";
import { SeriesView } from "../series/series";
import { TableView } from "../table/grid";

/** Views that read better than as their shape. */
const BY_NAME: ReadonlyMap<string, ViewComponent> = new Map<string, ViewComponent>([
  ["overview", OverviewView],
  ["notes", NotesView],
]);

export function componentFor(view: ViewHeader): ViewComponent {
  return BY_NAME.get(view.name) ?? componentForShape(view.shape);
}

function componentForShape(shape: Shape): ViewComponent {
  switch (shape) {
    case "table":
      return TableView;
    case "tree":
      return FlameView;
    case "series":
      return SeriesView;
    default:
      return assertNever(shape);
  }
}
