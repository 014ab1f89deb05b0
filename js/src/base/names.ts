/** Shortens long names of code and keeps the parts that differ. */

/** About how wide a character is in pixels: of code in a table, and in a list, of both. */
export const CODE_CHAR_PX = 7.3;
export const LIST_CHAR_PX = 7.5;

const ELLIPSIS = "…";
// The part of the room for the beginning of a cut name; the rest is for its end.
const HEAD_SHARE = 0.6;

/** Replaces text nested deeper than `keep` levels of `open`…`close` by an ellipsis. */
function foldNested(name: string, open: string, close: string, keep: number): string {
  let depth = 0;
  let folded = "";
  for (const char of name) {
    if (char === close && depth > 0) depth -= 1;
    if (depth <= keep) folded += char;
    if (char === open) {
      depth += 1;
      if (depth === keep + 1) folded += ELLIPSIS;
    }
  }
  return folded;
}

/** The forms of a C++ name from long to short; the first that fits is used. */
function shorterForms(name: string): readonly string[] {
  const bare = name.replace(/^void /, "");
  const noArguments = foldNested(bare, "(", ")", 0);
  const inner = foldNested(noArguments, "<", ">", 1);
  const noNamespaces = inner.replace(/(?:[A-Za-z_]\w*::)+(?=[A-Za-z_])/g, "");
  return [name, bare, noArguments, inner, noNamespaces, foldNested(noNamespaces, "<", ">", 0)];
}

// "torch/nn/modules/module.py(1781): _call_impl", as Kineto names Python frames.
const PYTHON_FRAME = /^(?:.*[/\\])?([^/\\]+\(\d+\)): (.+)$/;

/** The forms of a Python frame from long to short: without folders, then only the function. */
function frameForms(name: string, file: string, routine: string): readonly string[] {
  return [name, `${file}: ${routine}`, routine];
}

// The path of a module or a file; ops such as aten::add have colons.
const DOTTED = /^[\w-]+(?:[./\\][\w*-]+){2,}(?::\d+| ×\d+)?$/;

/** Paths without their first parts. */
function dottedForms(name: string): readonly string[] {
  const parts = name.split(/(?<=[./\\])/);
  const forms = parts.map((_, at) => (at === 0 ? name : `…${parts.slice(at).join("")}`));
  // Of several modules the last part says enough.
  return name.includes(" ×") ? forms : forms.slice(0, -1);
}

// What torch puts before the names of all its ops, and of all its backward nodes.
const COMMON = /^(?:autograd::engine::evaluate_function: )?(?:torch::autograd::|aten::)?(?=\w)/;

// "forward qwen2/modeling_qwen2.py:56", as a box has it.
const PLACED = /^(\S+) (?:.*[/\\])?([^/\\]+:\d+)$/;

function formsOf(name: string): readonly string[] {
  const frame = PYTHON_FRAME.exec(name);
  const [, file, routine] = frame ?? [];
  if (file !== undefined && routine !== undefined) return frameForms(name, file, routine);
  if (DOTTED.test(name)) return dottedForms(name);
  if (PLACED.test(name)) return [name, name.replace(PLACED, "$1 $2")];
  return isTemplated(name) ? shorterForms(name) : [name, name.replace(COMMON, "")];
}

function isTemplated(name: string): boolean {
  // Names of Python such as "<built-in method run_backward of ...>" are entirely in brackets.
  return name.indexOf("<") > 0 && name.includes(">");
}

/**
 * `name` in at most `room` characters: what all names begin with, folders or template arguments go first, then the
 * middle is cut.
 */
export function shortenName(name: string, room: number, cut = cutMiddle): string {
  if (name.length <= room) return name;
  const forms = formsOf(name);
  const last = (forms.at(-1) ?? name).replace(/^…/, "");
  return forms.find((form) => form.length <= room) ?? cut(last, room);
}

// Below this room, the beginning alone is more readable than both ends of a name.
const MIDDLE_CHARS = 14;

/** A name in a box, which can be narrow. */
export function shortenForBox(name: string, room: number): string {
  return shortenName(name, room, room < MIDDLE_CHARS ? cutEnd : cutMiddle);
}

/** The names of a list, each in at most `room` characters; where two would read alike, what differs stays in sight. */
export function shortenAll(names: readonly string[], room: number): readonly string[] {
  const short = names.map((name) => shortenName(name, room));
  const alike = new Map<string, Set<string>>();
  short.forEach((text, at) => {
    const same = alike.get(text) ?? new Set<string>();
    alike.set(text, same.add(names[at] ?? ""));
  });
  const apart = new Map<string, string>();
  for (const same of alike.values()) {
    if (same.size < 2) continue;
    const group = Array.from(same);
    toldApart(group, room).forEach((text, at) => {
      apart.set(group[at] ?? "", text);
    });
  }
  return names.map((name, at) => apart.get(name) ?? short[at] ?? name);
}

// A number that stands alone, as in "device busy 91.9 %" and "3 calls", unlike that of a name or a line.
const FIGURE = /(?:^|\s)[<−]*\d/;
const LEAST_NAME_CHARS = 5;

/** A remark in at most `room` characters: names are cut or go, and what says a number stays whole or goes. */
export function shortenNote(note: string, room: number): string {
  if (note.length <= room || !FIGURE.test(note)) return shortenName(note, room);
  const parts = note.split(/(?<=, | · )/);
  const figures = parts.filter((part) => FIGURE.test(part)).join("");
  const name = parts.filter((part) => !FIGURE.test(part)).join("");
  const mark = /, $| · $/.exec(name)?.[0] ?? "";
  const rest = room - figures.length - mark.length;
  if (mark !== "" && rest >= LEAST_NAME_CHARS)
    return shortenName(name.slice(0, -mark.length), rest) + mark + figures;
  return figures.length <= room ? figures : "";
}

/** Names that read alike when shortened, cut elsewhere: the first way by which they differ. */
function toldApart(group: readonly string[], room: number): readonly string[] {
  const begin = sharedChars(group);
  const ways = [
    (name: string) => withoutCommon(name, room),
    (name: string) => cutStart(name, room),
    (name: string) => cutMiddle(name, room),
    (name: string) => cutAround(name, begin, room),
  ];
  const differ = (texts: readonly string[]) => new Set(texts).size === group.length;
  const made = ways.map((way) => group.map(way));
  return made.find(differ) ?? made[0] ?? group;
}

/** A name with a mark in the place of what many names begin with. */
function withoutCommon(name: string, room: number): string {
  const rest = name.replace(COMMON, "");
  return rest === name ? cutMiddle(name, room) : ELLIPSIS + cutMiddle(rest, room - 1);
}

/** How many characters all names begin with. */
function sharedChars([first = "", ...rest]: readonly string[]): number {
  let at = 0;
  while (at < first.length && rest.every((name) => name[at] === first[at])) at += 1;
  return at;
}

/** A little of the beginning, and the name from where it differs from others. */
function cutAround(name: string, at: number, room: number): string {
  const head = Math.floor(room / 4);
  if (name.length <= room || at <= head) return cutEnd(name, room);
  const from = Math.max(head, Math.min(at, name.length - (room - head - 1)));
  return cutEnd(name.slice(0, head) + ELLIPSIS + name.slice(from), room);
}

function cutStart(text: string, room: number): string {
  const chars = Array.from(text);
  return chars.length <= room ? text : ELLIPSIS + chars.slice(chars.length - room + 1).join("");
}

function cutEnd(text: string, room: number): string {
  const chars = Array.from(text);
  return chars.length <= room ? text : chars.slice(0, Math.max(0, room - 1)).join("") + ELLIPSIS;
}

/** Keeps both ends of a text and cuts its middle. */
export function cutMiddle(text: string, room: number): string {
  const chars = Array.from(text);
  if (chars.length <= room) return text;
  if (room < 2) return "";
  const head = Math.ceil((room - 1) * HEAD_SHARE);
  const tail = room - 1 - head;
  return chars.slice(0, head).join("") + ELLIPSIS + chars.slice(chars.length - tail).join("");
}

// "nn.Module: Linear_3", as Kineto names the calls of modules.
const MODULE_CALL = /^nn\.Module: (.+?)(?:_\d+)?$/;
const PATH_PARTS = 2;

/** What a box is called: a function before its place, a module by its class. */
export function displayName(name: string): string {
  const module = MODULE_CALL.exec(name)?.[1];
  if (module !== undefined) return module;
  const frame = /^(.+)\((\d+)\): (.+)$/.exec(name);
  const [, file, line, routine] = frame ?? [];
  if (file === undefined || line === undefined || routine === undefined) return name;
  const place = file.split(/[/\\]/).slice(-PATH_PARTS).join("/");
  return `${routine} ${place}:${line}`;
}

// The path of a child of a list or a Sequential, which is only its number.
const NUMBERED = /^[\d.]+$/;
const MOST_NUMBERS = 3;

/** "module 5" for a module whose path is only its number, and "Linear" for any of Linear_0, Linear_1 and so on. */
export function moduleTitle(path: string): string {
  if (path === "*") return "modules";
  return NUMBERED.test(path) ? `module ${path}` : path.replaceAll(/_\*(?=\.|$)/g, "");
}

/** "modules 0, 2" for modules whose paths are only numbers, "blocks.*.mlp ×12" and "Linear ×24" for other siblings. */
export function modulesTitle(paths: readonly string[], sibling: (path: string) => string): string {
  const [first = ""] = paths;
  if (!NUMBERED.test(first)) return `${moduleTitle(sibling(first))} ×${paths.length}`;
  const more = paths.length > MOST_NUMBERS ? " …" : "";
  return `modules ${paths.slice(0, MOST_NUMBERS).join(", ")}${more}`;
}
