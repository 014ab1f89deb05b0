/** Shortens long names of code and keeps the parts that differ. */

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
const DOTTED = /^[\w-]+(?:[./\\][\w-]+){2,}(?::\d+)?$/;

/** Paths without their first parts. */
function dottedForms(name: string): readonly string[] {
  const parts = name.split(/(?<=[./\\])/);
  return parts.map((_, at) => (at === 0 ? name : `…${parts.slice(at).join("")}`)).slice(0, -1);
}

// What torch puts before the names of all its ops, and of all its backward nodes.
const COMMON = /^(autograd::engine::evaluate_function: |aten::)/;

function formsOf(name: string): readonly string[] {
  const frame = PYTHON_FRAME.exec(name);
  const [, file, routine] = frame ?? [];
  if (file !== undefined && routine !== undefined) return frameForms(name, file, routine);
  if (DOTTED.test(name)) return dottedForms(name);
  return isTemplated(name) ? shorterForms(name) : [name, name.replace(COMMON, "")];
}

function isTemplated(name: string): boolean {
  // Names of Python such as "<built-in method run_backward of ...>" are entirely in brackets.
  return name.indexOf("<") > 0 && name.includes(">");
}

/** `name` in at most `room` characters: folders or template arguments go first, then the middle is cut. */
export function shortenName(name: string, room: number): string {
  if (name.length <= room) return name;
  const forms = formsOf(name);
  const fitting = forms.find((form) => form.length <= room);
  return fitting ?? cutMiddle(forms.at(-1) ?? name, room);
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
