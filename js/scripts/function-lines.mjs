/** Fail if a function is too long to read at once. Biome's rule does not count the lines of JSX. */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync, Visitor } from "vite";

const MOST_LINES = 60;
const js = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const FOLDERS = ["src", "test", "bench", "scripts", "../widgets"];
const SCRIPT = /\.(tsx?|m?js)$/;

/** The functions of a file with more lines than `most`: the line where each begins, and how many it has. */
export function longFunctions(path, text, most) {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  const lineAt = (offset) => text.slice(0, offset).split("\n").length;
  const found = [];
  const describes = new Set();
  const measure = (node) => {
    const line = lineAt(node.start);
    const lines = lineAt(node.end) - line + 1;
    if (lines > most && !describes.has(node)) found.push({ line, lines });
  };
  new Visitor({
    // The tests of one thing are listed in one callback.
    CallExpression({ callee, arguments: args }) {
      if (callee.name === "describe") for (const each of args) describes.add(each);
    },
    FunctionDeclaration: measure,
    FunctionExpression: measure,
    ArrowFunctionExpression: measure,
  }).visit(program);
  return found;
}

function check() {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(join(js, folder), { recursive: true })
      .filter((name) => SCRIPT.test(name))
      .map((name) => join(js, folder, name)),
  );
  const flaws = files.flatMap((file) =>
    longFunctions(file, readFileSync(file, "utf8"), MOST_LINES).map(
      ({ line, lines }) => `${relative(js, file)}:${line}: a function of ${lines} lines`,
    ),
  );
  if (flaws.length === 0) return;
  console.error(`${flaws.join("\n")}\nFunctions have at most ${MOST_LINES} lines: split them.`);
  process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) check();
