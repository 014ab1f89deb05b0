import { expect, it } from "vitest";
import { longFunctions } from "./function-lines.mjs";

const ARROW = "const double = (x) => {\n  return 2 * x;\n};\n";

it("finds a function with more lines than allowed, and where it begins", () => {
  expect(longFunctions("a.ts", `\n${ARROW}`, 2)).toEqual([{ line: 2, lines: 3 }]);
  expect(longFunctions("a.ts", ARROW, 3)).toEqual([]);
});

it("counts the lines of JSX, of methods, and of functions in functions", () => {
  const jsx = "function View() {\n  return (\n    <p>\n      one\n      two\n    </p>\n  );\n}\n";
  expect(longFunctions("a.tsx", jsx, 7)).toEqual([{ line: 1, lines: 8 }]);
  const method = "class A {\n  b() {\n    return 1;\n  }\n}\n";
  expect(longFunctions("a.ts", method, 2)).toEqual([{ line: 2, lines: 3 }]);
  const nested = `function outer() {\n${ARROW}}\n`;
  expect(longFunctions("a.ts", nested, 2)).toEqual([
    { line: 1, lines: 5 },
    { line: 2, lines: 3 },
  ]);
});

it("lets the list of the tests of one thing be longer, but not a test", () => {
  const test = 'describe("a", () => {\n  it("b", () => {\n    c();\n  });\n});\n';
  expect(longFunctions("a.test.ts", test, 3)).toEqual([]);
  expect(longFunctions("a.test.ts", test, 2)).toEqual([{ line: 2, lines: 3 }]);
});

it("refuses a file that it cannot read", () => {
  expect(() => longFunctions("a.ts", "function (", 1)).toThrow("a.ts: ");
});
