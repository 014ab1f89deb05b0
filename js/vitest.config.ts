/**
 * Tests of logic run in Node.js alone, and tests named `*.dom.test.ts` in jsdom, whose start takes longer than most tests.
 * Tests of painting run in Chromium, and are left out where there is none.
 */

import { existsSync } from "node:fs";
import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

// `make test` sets CHROMIUM; the default is where Debian installs it.
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-sync",
];

const logic = {
  extends: true as const,
  test: {
    name: "logic",
    environment: "node",
    // These tests put back the clocks that they replace, so they can share their modules and globals.
    isolate: false,
    include: ["src/**/*.test.{ts,tsx}", "scripts/**/*.test.mjs"],
    exclude: ["**/*.browser.test.ts", "**/*.dom.test.ts"],
  },
};

const dom = {
  extends: true as const,
  test: {
    name: "dom",
    environment: "jsdom",
    // A page of jsdom takes seconds to start, so the files share one, and each test removes what it has shown.
    isolate: false,
    include: ["src/**/*.dom.test.ts", "../widgets/**/*.test.ts"],
    setupFiles: ["test/setup.ts"],
  },
};

const canvas = {
  extends: true as const,
  test: {
    name: "canvas",
    // A page of its own for each file takes longer than its tests; each test removes what it has shown.
    isolate: false,
    include: ["src/**/*.browser.test.ts"],
    browser: {
      enabled: true,
      headless: true,
      screenshotFailures: false,
      // As wide as a notebook's cell in a window of usual size: all tabs fit.
      viewport: { width: 1100, height: 700 },
      provider: playwright({ launchOptions: { executablePath: CHROMIUM, args: FLAGS } }),
      instances: [{ browser: "chromium" as const }],
    },
  },
};

// A look by axe takes seconds where others work too; a test that hangs still ends.
const MOST_MS = 30_000;

export default defineConfig({
  // The golden page lies in ../tests, where Python reads it too.
  server: { fs: { allow: [".."] } },
  assetsInclude: ["**/*.bin"],
  test: {
    testTimeout: MOST_MS,
    projects: existsSync(CHROMIUM) ? [logic, dom, canvas] : [logic, dom],
  },
});
