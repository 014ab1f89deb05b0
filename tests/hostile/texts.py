"""500 texts that attack whatever shows them: pages, terminals, spreadsheets, figures, file formats, dictionaries.

A payload that ran as a script would set ``window.__pwned``; one that was fetched would ask ``evil.example``.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from amount import IS_WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "window.__pwned=1"
EVIL = "https://evil.example"


def markup() -> Iterator[str]:
    """Yield elements that run a script or load something, after what would end the text around them."""
    elements = (
        f"<script>{RUN}</script>",
        f"<img src=x onerror={RUN}>",
        f"<svg/onload={RUN}>",
        f"<svg><script>{RUN}</script></svg>",
        f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
        f"<details open ontoggle={RUN}>",
        f"<input autofocus onfocus={RUN}>",
        f"<video><source onerror={RUN}></video>",
        f"<style>@import '{EVIL}/a.css'</style>",
        f"<link rel=stylesheet href={EVIL}/a.css>",
        f"<img src={EVIL}/a.png>",
        f"<object data={EVIL}/a></object>",
        f"<meta http-equiv=refresh content='0;url={EVIL}'>",
        f"<base href={EVIL}/>",
        f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}>",
    )
    ends = ("", '">', "'>", "</script>", "</style></title>", "-->", "]]>", "</textarea></noscript>")
    yield from (end + element for end, element in product(ends, elements))


def unusual_markup() -> Iterator[str]:
    """Yield markup that a parser may take for what it is not."""
    yield from (
        *("</script>", "</SCRIPT >", "</script\t/>", "</style>", "</title>", "</main>", "<!--", "<!--<script>", "-->"),
        f"<scr<script>ipt>{RUN}</script>",
        f"<ScRiPt\x0c>{RUN}</sCrIpT>",
        f"<img/src='x'onerror\n=\n{RUN}//",
        f"<a href=javascript:{RUN} autofocus>x</a>",
        f"<x contenteditable onblur={RUN} tabindex=1>",
        f"<template><script>{RUN}</script></template>",
        f"<form action={EVIL}><button>x</button></form>",
        f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
        f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
        "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
        *("<", ">", "&", '"', "'", "<>", "</", "&lt", "&amp;lt;script&amp;gt;", "<b>bold</b>", "<details>", "<bdi>"),
    )


def addresses() -> Iterator[str]:
    """Yield addresses that would run or load something if they became a link or an image."""
    yield from (
        f"javascript:{RUN}",
        f"JaVaScRiPt:{RUN}",
        f"java\tscript:{RUN}",
        f"\x01javascript:{RUN}",
        f"javascript://%0a{RUN}",
        f"vbscript:{RUN}",
        f"data:text/html,<script>{RUN}</script>",
        f"blob:null/{RUN}",
        "file:///etc/passwd",
        f"{EVIL}/a.png",
        "//evil.example/a.png",
        f"url({EVIL}/a.png)",
        f"![image]({EVIL}/a.png)",
        f"[link](javascript:{RUN})",
        f"<{EVIL}>",
    )


def terminal_escapes() -> Iterator[str]:
    """Yield sequences that move, color, rename or write to a terminal."""
    codes = (
        "[31mred",
        "[2J[H",
        "]0;title\x07",
        f"]8;;{EVIL}\x1b\\link",
        "]52;c;cm0=\x07",
        "c",
        "[8mhidden",
        "P1$r0m\x1b\\",
    )
    yield from (f"\x1b{code}" for code in codes)
    yield from (f"\x9b{code[1:]}" for code in codes[:2])
    yield from ("a\rb", "over\b\b\b\bwrite", "\x1b", "\x1b[999999999C", "\x1b[?1049h", "\x1b[6n", "\x0e", "\x07\x07")


def directions() -> Iterator[str]:
    """Yield texts that are shown in another order than they are stored."""
    marks = (*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",)
    yield from (f"aten::{mark}mm (gnp.exe)" for mark in marks)
    yield from ("\u202e" * 40 + "abc", "שלום aten::mm", "مرحبا <b>", "a\u2067b\u202ec\u2066d")


def names_of_objects() -> Iterator[str]:
    """Yield names that dictionaries and objects of JavaScript and Python have themselves."""
    yield from (
        *("__proto__", "constructor", "prototype", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "toJSON"),
        *("__defineGetter__", "__lookupSetter__", "then", "length", "name", "caller", "arguments", "__proto__.a", "at"),
        *("constructor.prototype.a", "__proto__[a]", "Symbol(Symbol.iterator)", "undefined", "null", "NaN", "true"),
        *("Infinity", "-0", "0", "-1", "1e999", "0x10", "[object Object]", "__class__", "__init__", "__dict__", "self"),
        *("None", "nan", "inf", "N/A", "all", "total", "root", "window", "document", "eval", "import", "open", "data"),
    )


def formulas() -> Iterator[str]:
    """Yield cells that a spreadsheet would compute."""
    yield from (
        *("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", " =1+1", '"=1+1', "'=1+1", ",=1+1", ";=1+1"),
        *("\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(1)", "%0A=1+1", "=cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0"),
        f'=HYPERLINK("{EVIL}","click")',
        f'=IMPORTXML("{EVIL}","//a")',
        "=1+1\n=2+2",
    )


def control_characters() -> Iterator[str]:
    """Yield each control character inside a name."""
    yield from (f"a{chr(code)}b" for code in (*range(0x20), *range(0x7F, 0xA0)))


def unpaired_surrogates() -> Iterator[str]:
    """Yield texts that JSON can carry, and UTF-8 cannot."""
    yield from ("\ud800", "\udfff", "a\udc00b", "\ud83d", "\ude00\ud83d", "<b>\ud800</b>", "\udcff.json", "\ud800" * 50)


def long_texts() -> Iterator[str]:
    """Yield texts of 10 kB, in which no line can be broken, or much is drawn for each character."""
    size = 10_000
    yield from (
        "W" * size,
        "W" * (size + 1),
        "\U0001f600" * (size // 4),
        "e" + "\u0301" * (size // 2),
        "\ufdfd" * (size // 3),
    )
    yield from (
        "<b>" * (size // 3),
        "a/" * (size // 2),
        "[" * size,
        "\u202e" * (size // 3),
        "std::vector<" * 800,
        " " * size,
    )
    yield from ("%s" * (size // 2), "\n" * size, "\\" * size, "$" * size, "&lt;" * (size // 4))


def templates() -> Iterator[str]:
    """Yield what a template, a formatter, a shell or TeX would replace."""
    yield from (
        *(
            "$title",
            "${title}",
            "$$",
            "$",
            "${policy}",
            "$bundle",
            "%(name)s",
            "%s%n",
            "%d",
            "{}",
            "{0}",
            "{lane}",
            "{",
        ),
        *(
            "{0.__class__}",
            "{name!r:>1000}",
            "}}",
            "{{7*7}}",
            "#{7*7}",
            "<%= 7*7 %>",
            "{% raw %}",
            "[[name]]",
            "@{name}",
        ),
        "{{constructor.constructor('" + RUN + "')()}}",
        "${" + RUN + "}",
        *("$(id)", "`id`", "; rm -rf /", "| cat", "&& true", "$HOME", "%PATH%", "~root", "!!", "%%html", "%load_ext a"),
        *(r"$\frac{1}{$", r"$\alpha$", r"\(x^2\)", r"\[x\]", r"\input{/etc/passwd}", r"\write18{id}", "$x_1$ and $y$"),
        r"$\href{javascript:" + RUN + r"}{x}$",
        *(r"\begin{align}x\end{align}", "#&~^_", "**bold**", "_nolegend_", "| a | b |", "# head", "~~~", "`" * 3),
    )


def letters() -> Iterator[str]:
    """Yield text that is rare in names of ops, and must be shown as it is."""
    yield from (
        *(
            "模型",
            "é",
            "e\u0301",
            "ÅÅÅ",
            "ß",
            "ı",
            "İ",
            "ﬀ",
            "ﷺ",
            "ไทย",
            "हिन्दी",
            "Ω≈ç√",
            "ａ",
            "\u212a",
            "a\u0489" * 8,
        ),
        *(
            "\U0001f600",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467",
            "\U0001f1e9\U0001f1ea",
            "\U0001f44d\U0001f3fd",
            "☠\ufe0f",
        ),
        *(
            "\u200b",
            "a\u200bb",
            "\u00ad",
            "\ufeff",
            "\ufeffa",
            "\u2028",
            "a\u2028b",
            "a\u2029b",
            "\ufffe",
            "\uffff",
            "\ufffd",
        ),
        *("\U0010ffff", "\ue000", "\U000e0061", "\u2800", "\u3164", "\u00a0", "\u3000a", "\u115f", "\U0001d400", "𓀀"),
    )


def encodings() -> Iterator[str]:
    """Yield escapes that must not be decoded once more."""
    yield from (
        *(
            "%3Cscript%3E",
            "%00",
            "%0d%0aSet-Cookie:a=b",
            "%u003cscript%u003e",
            "%c0%bc",
            "%",
            "%zz",
            "+ADw-script+AD4-",
        ),
        *("&lt;script&gt;", "&#60;script&#62;", "&#x3c;script", "&NewLine;", "&quot;&apos;", "&#0;", "&nbsp;"),
        *(r"\x3cscript\x3e", r"\u003cscript\u003e", r"\ud800", r"\074script", r"\n", r"\\", "\\", r"\'", r"\"", "a\\"),
    )


def paths_and_queries() -> Iterator[str]:
    """Yield names that a file system, a database, a regular expression or our own search would read."""
    yield from (
        *(
            "../../etc/passwd",
            "..\\..\\a",
            "C:\\Windows\\a.py",
            "\\\\server\\share",
            "/dev/null",
            "~/.ssh",
            "a//b",
            ".",
        ),
        *(
            "a.py(12): f",
            "a.py(99999999999): f",
            "a(1): b(2): c",
            "(1): ",
            "<string>(1): <module>",
            "a;b;c",
            ";",
            "a b 1",
        ),
        *(
            "'; DROP TABLE ops; --",
            '" OR 1=1',
            "(a+)+$",
            "[",
            "*",
            "/(/",
            "/a/",
            "self>1ms",
            "-name:a",
            "name:",
            '"open',
        ),
        *(
            "nn.Module: ",
            "nn.Module: <b>_0",
            "ProfilerStep#1",
            "ProfilerStep#-1",
            "ProfilerStep#99999999999",
            "[memory]",
        ),
        *("Optimizer.step#<b>", "enumerate(DataLoader)#<b>", "autograd::engine::evaluate_function: <b>", "nccl:<b>"),
        *("void <b>(int)", "cudaLaunchKernel", "Memcpy HtoD (<b> -> Device)", "stream 7", "thread 1", "group\nname"),
    )


def spaces() -> Iterator[str]:
    """Yield texts of which nothing is seen, or the ends are easily lost."""
    yield from ("", " ", "   ", "\t", "\n", "\r\n", " a", "a ", "a\nb", "a\r\nb", "a\n\n\nb", "a\tb", "\n" * 50, "a  b")


FAMILIES = (
    *(markup, unusual_markup, addresses, terminal_escapes, directions, names_of_objects, formulas, control_characters),
    *(unpaired_surrogates, long_texts, templates, letters, encodings, paths_and_queries, spaces),
)
TEXTS = tuple(dict.fromkeys(text for family in FAMILIES for text in family()))
# What takes long for each text is done for a few of each family, and for all of them with `make thorough`.


def sample(of_each: int) -> tuple[str, ...]:
    """Return so many texts of each family, from all over it."""
    if IS_WHOLE:
        return TEXTS
    families = [tuple(family()) for family in FAMILIES]
    return tuple(dict.fromkeys(text for family in families for text in family[:: len(family) // of_each][:of_each]))


def in_parts(texts: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    """Return the texts in parts of at most ``size``."""
    return [texts[at : at + size] for at in range(0, len(texts), size)]
