/** Keeps a minimap in its canvas. */

import { useSignalEffect } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Minimap, type MinimapScene } from "../../draw/minimap";
import type { GraphMoves } from "./graph-moves";

/** The canvas for a minimap of `sceneOf`, which is drawn again when a signal changes that this reads. */
export function useMinimap<Unit extends number>(
  moves: GraphMoves<Unit>,
  sceneOf: () => MinimapScene<Unit>,
  of: readonly unknown[] = [],
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Minimap<Unit> | null>(null);
  useEffect(() => {
    if (canvas.current === null) return;
    const abort = new AbortController();
    const panBy = (delta: Unit) => moves.panBy(delta);
    painter.current = new Minimap(canvas.current, sceneOf, panBy, abort.signal);
    return () => abort.abort();
  }, [moves, ...of]);
  useSignalEffect(() => {
    sceneOf();
    painter.current?.redraw();
  });
  return canvas;
}
