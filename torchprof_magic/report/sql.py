"""SQL queries over the frames of a report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.units import format_count, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SPACES = re.compile(r"[\s(]*")
_READING = re.compile(r"(select|with|show|explain|values|from)\b", re.IGNORECASE)
# Functions of polars that read files and URLs. Queries over a report do not need them. What follows a comment is not
# looked at: comments can be nested.
_FILE_FUNCTION = re.compile(r"""\bread_\w+["`\]]?\s*(\(|--|/\*)""", re.IGNORECASE)
_QUOTED = re.compile(r"""(\w?)'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL)
# Functions and queries that make rows and texts out of nothing, as many as a number says or without end.
_ENDLESS = re.compile(r"""\bwith\s+recursive\b|\b(?:generate_series|range|lpad|rpad)["`\]]?\s*(?=\()""")
# The engine reads what is in brackets twice where it could mean two things, so each bracket in another doubles the time
# once its own limit of nesting is reached: about 50, of which a bracket takes two and a sign in a row of signs takes
# one. What is done over a window doubles it, too.
MAX_NESTING = 12
_MAX_SIGNS = 2
_NESTS = re.compile(r"(?P<open>[(\[{]|\bcase\b)|[)\]}]|\bend\b")
_SIGNS = re.compile(r"(?:(?:[-+~!@]|\b(?:not|prior|interval)\b)\s*){3}")
# The engine calls itself for every operator in a chain, and dies when its stack is full: after about a thousand
# operators, or 500 queries joined by UNION. BETWEEN, NULLIF and CASE repeat the value that they compare, so each one in
# a chain doubles it.
_PARTS = (
    (
        "operators",
        re.compile(r"[-+*/%|&^<>=!~.:\[@#?]+|\b(?:and|or|not|is|in|like|ilike|rlike|regexp|interval|at)\b"),
        300,
    ),
    ("queries", re.compile(r"\b(?:select|union|intersect|except|values|table)\b"), 100),
    ("joins", re.compile(r"\bjoin\b"), 30),
    ("BETWEEN, NULLIF and CASE with a value", re.compile(r"\b(?:between|nullif|ifnull|case(?!\s+when\b))\b"), 12),
    ("CASE with a value", re.compile(r"\bcase\b(?!\s+when\b)"), 4),
    ("WHEN", re.compile(r"\bwhen\b"), 100),
    ("names", re.compile(r"\b[^\W0-9]\w*"), 1_000),
    # Each may double a text or more, and what is in a WITH query can be made longer in the next one.
    ("|| and CONCAT", re.compile(r"\|\||\bconcat(?:_ws)?\b"), 8),
    ("REPLACE and REPEAT", re.compile(r"\b(?:regexp_)?(?:replace|repeat)\b"), 2),
)
# They put the texts of all rows into one, and a join has as many rows as its condition lets through.
_GATHERS = re.compile(r"\b(?:string_agg|listagg|group_concat|array_agg)\b")
# A table of more rows than this may be used twice in a query: joined with itself twice, it has rows beyond number.
_LARGE_ROWS = 2_000
_MOST_USES = 2
# What follows a FROM, up to the next clause, and the tables in it.
_FROM = re.compile(
    r"\bfrom\b((?:(?!\b(?:where|group|order|union|intersect|except|having|limit|select|from)\b).)*)", re.DOTALL
)
_USED = re.compile(r"(?:^|\bjoin|,)\s*[\"`(]*(\w+)")
_NAMED_QUERY = re.compile(r"\b(\w+)\s+as\s*\(\s*select\b")
MAX_QUERY_CHARS = 100_000
# A result may have as many rows, or twice those of the largest table in the query.
MAX_ROWS = 2_000_000
# Frames whose rows other frames refer to by number. SQL has no other way to get the number of a row.
NUMBERED = ("events", "lanes", "stacks", "segments")


def run_sql(query: str, tables: Mapping[str, Callable[[], pl.DataFrame]]) -> pl.DataFrame:
    """Return the result of a query over the tables; only the tables in the query are computed.

    Categories are converted to strings, so that ``LIKE`` works. Raises ``ValueError`` with the available tables
    and columns if the query is invalid, or if it does more than read.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise ValueError(
            f"the query is too long ({format_count(len(query))} characters; at most {format_count(MAX_QUERY_CHARS)})"
        )
    if not _READING.match(query, _beginning(query)):
        raise ValueError("queries can only read; begin with SELECT or WITH")
    if _FILE_FUNCTION.search(query):
        raise ValueError("queries can use only the tables of the report, and cannot read files")
    plain = _without_texts(query).lower()
    _check_parts(plain)
    _check_nesting(plain)
    if endless := _ENDLESS.search(plain):
        raise ValueError(f"queries cannot use {endless[0].upper()}, which makes rows or texts of any number and length")
    words = {word.lower() for word in re.findall(r"\w+", query)}
    named = {name: _queried(name, build()) for name, build in tables.items() if name in words or "show" in words}
    _check_joins(plain, named)
    most_rows = max(MAX_ROWS, 2 * max((frame.height for frame in named.values()), default=0))
    try:
        with pl.SQLContext(frames=named) as context:
            # One row more than is allowed is asked for, so that a join of everything with everything is not computed.
            asked = context.execute(query, eager=False).head(most_rows + 1)
            found = asked.collect(engine="streaming" if _is_joined(plain, named) else "auto")
    except (Exception, pl.exceptions.PanicException) as exc:  # polars raises many kinds of exceptions
        raise ValueError(f"{_first_of(exc)}\n{printable_lines(_known(named, tables))}") from exc
    if found.height > most_rows:
        raise ValueError(
            f"the result has more than {format_count(most_rows)} rows; add a condition to the join, or a LIMIT"
        )
    return found


def _beginning(query: str) -> int:
    """Return where the first word of a query is, after spaces, brackets and comments."""
    at = 0
    while True:
        at = _SPACES.match(query, at).end()  # type: ignore[union-attr]
        end = {"--": "\n", "/*": "*/"}.get(query[at : at + 2])
        if end is None:
            return at
        found = query.find(end, at + 2)
        if found < 0:
            return len(query)
        at = found + len(end)


def _check_parts(counted: str) -> None:
    """Refuse a query of so many parts that the engine would use up its stack, or not come to an end."""
    for name, pattern, most in _PARTS:
        count = sum(1 for _ in pattern.finditer(counted))
        if count > most:
            raise ValueError(
                f"the query is too complex ({format_count(count)} {name}; at most {format_count(most)}); split it "
                "into several"
            )


def _check_nesting(query: str) -> None:
    """Refuse brackets in brackets, and signs before signs, that would keep the engine's parser busy for years."""
    depth = deepest = 0
    for found in _NESTS.finditer(query):
        depth = depth + 1 if found["open"] else max(depth - 1, 0)
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise ValueError(
            f"the query is too complex ({format_count(deepest)} brackets or CASE in one another; at most "
            f"{MAX_NESTING}); split it into several"
        )
    if _SIGNS.search(query):
        raise ValueError(f"the query is too complex ({_MAX_SIGNS + 1} signs or NOT in a row; at most {_MAX_SIGNS})")


def _check_joins(query: str, named: Mapping[str, pl.DataFrame]) -> None:
    """Refuse joins of large tables with themselves, again and again, and texts of all their rows in one."""
    clauses = [_USED.findall(clause) for clause in _FROM.findall(query)]
    uses = [name for clause in clauses for name in clause]
    is_joining = any(len(clause) > 1 for clause in clauses)
    large = {name for name, frame in named.items() if frame.height > _LARGE_ROWS}
    for name in (*large, *(_NAMED_QUERY.findall(query) if large else ())):
        together = max((clause.count(name) for clause in clauses), default=0)
        if together > _MOST_USES or (is_joining and uses.count(name) > 2 * _MOST_USES):
            most = max(together, uses.count(name))
            raise ValueError(f"the query joins {name} {most} times; at most {_MOST_USES}; split it into several")
    if is_joining and large and _GATHERS.search(query):
        raise ValueError("queries that join tables cannot gather the texts of rows in one; gather them in Python")


def _without_texts(query: str) -> str:
    """Return the query without its texts, quoted names and comments, or all of it where they are not plain.

    Texts can be written in ways that only the engine's own parser knows, such as ``E'...'`` and ``$$...$$``, and
    comments can be nested. All of such a query is counted, with its texts.
    """
    plain = _QUOTED.sub(lambda found: {"'": " 0 ", "-": " ", "/": " "}.get(found[0][0], " x "), query)
    is_clear = "$" not in plain and not any(found[1] or "/*" in found[0][2:] for found in _QUOTED.finditer(query))
    return plain if is_clear else query


def _is_joined(query: str, named: Mapping[str, pl.DataFrame]) -> bool:
    """Return whether a query names tables more than once, as a join does; then its result can be of any size."""
    return sum(word in named for word in re.findall(r"\w+", query)) > 1


def _queried(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    numbered = frame.with_row_index("row") if name in NUMBERED else frame
    return numbered.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def _first_of(exc: BaseException) -> str:
    """Return what the engine says is wrong, on one line, without its plan of the query."""
    return printable(" ".join(str(exc).partition("Resolved plan until failure")[0].split()))


def _known(named: Mapping[str, pl.DataFrame], tables: Mapping[str, Callable[[], pl.DataFrame]]) -> str:
    """Return the names of all tables, with the columns of those in the query."""
    lines = [f"{name}: {', '.join(frame.columns)}" for name, frame in named.items()]
    others = [name for name in tables if name not in named]
    return "\n".join([*lines, f"other tables: {', '.join(others)}"] if lines else [f"tables: {', '.join(others)}"])
