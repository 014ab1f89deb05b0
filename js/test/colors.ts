/** Colors of a light page, each different from the others, for tests that look at pixels. */

import type { Colors } from "../src/draw/colors";

export const COLORS: Colors = {
  theme: "light",
  background: [255, 255, 255],
  text: [0, 0, 0],
  muted: [90, 90, 90],
  line: [220, 220, 220],
  accent: [255, 0, 0],
  warning: [200, 120, 0],
  neutral: [200, 200, 200],
  merged: [100, 100, 100],
  uiFont: "sans-serif",
  codeFont: "monospace",
};
