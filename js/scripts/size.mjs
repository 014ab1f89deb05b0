/** Fail if the bundle is over its size budget: a notebook that is saved with its live views contains a copy of it. */

import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const MOST_BYTES = 450_000;
const MOST_GZIPPED_BYTES = 154_000;
const statics = resolve(dirname(fileURLToPath(import.meta.url)), "../../torchprof_magic/static");

const files = ["report.js", "report.css"].map((name) => readFileSync(resolve(statics, name)));
const bytes = files.reduce((sum, file) => sum + file.byteLength, 0);
const gzipped = files.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).byteLength, 0);
console.log(`report.js + report.css: ${bytes} bytes, ${gzipped} gzipped`);
if (bytes > MOST_BYTES || gzipped > MOST_GZIPPED_BYTES) {
  console.error(`The budget is ${MOST_BYTES} bytes and ${MOST_GZIPPED_BYTES} gzipped.`);
  process.exitCode = 1;
}
