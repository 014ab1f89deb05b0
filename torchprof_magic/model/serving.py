"""Ranges by which inference servers name their steps: which requests each serves, and how many tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

# vLLM: execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086), and without the sums
# execute_context_1(128)_generation_3(3). Of s, q is of the new tokens, k of all that they attend to.
_SUMS = r"\((?:sq([0-9]{1,15})sk([0-9]{1,15})sqsq([0-9]{1,18})sqsk([0-9]{1,18})|([0-9]{1,15}))\)"
_VLLM = re.compile(rf"execute_(?:[0-9]+_)?context_([0-9]{{1,9}}){_SUMS}_generation_([0-9]{{1,9}}){_SUMS}")
_VLLM_PLAIN = re.compile(r"execute_new_([0-9]{1,9})_cached_([0-9]{1,9})")
# SGLang: step[DECODE bs=32], step[EXTEND bs=15 toks=15360].
_SGLANG = re.compile(r"step\[([A-Z_0-9]{1,30})\b([^\]]{0,200})\]")
_FIELD = re.compile(r"\b(bs|toks|tokens)=([0-9]{1,12})\b")
_PREFILL = ("EXTEND", "PREFILL", "DRAFT_EXTEND", "DRAFT_EXTEND_V2", "DLLM_EXTEND", "SPLIT_PREFILL")
_DECODE = ("DECODE", "TARGET_VERIFY", "VERIFY")
_OTHER_MODES = ("MIXED", "IDLE", "PREBUILT", "DUMMY_FIRST")
# Whatever can name a step of a server, for a first look at many names.
PATTERN = r"^\s*(execute_(new_|context_|[0-9]+_context_)|step\[[A-Z_]+)"
PREFILL, DECODE, MIXED = "prefill", "decode", "mixed"


class Requests(NamedTuple):
    """What a step serves: ``kind`` is prefill, decode, mixed, or empty for none of them.

    ``batch`` is the number of requests and ``tokens`` that of the tokens which are computed, ``prefill_tokens`` and
    ``decode_tokens`` its parts. ``keys`` are the tokens that are attended to, over all requests, and ``scores`` the
    pairs of a token and one that it attends to; None where the range does not say so.
    """

    kind: str
    batch: int
    tokens: int | None
    prefill_tokens: int | None = None
    decode_tokens: int | None = None
    keys: int | None = None
    scores: int | None = None


def requests_of(name: str) -> Requests | None:
    """Return what a range says that it serves, None if it is no step of a server that is known."""
    name = name.strip()
    for pattern, read in ((_VLLM, _of_vllm), (_VLLM_PLAIN, _of_plain_vllm), (_SGLANG, _of_sglang)):
        if found := pattern.match(name):
            return read(found)
    return None


def _of_vllm(found: re.Match[str]) -> Requests:
    numbers = [None if text is None else int(text) for text in found.groups()]
    context, generation = _Part(*numbers[:6]), _Part(*numbers[6:])
    has_sums = context.keys is not None and generation.keys is not None
    return Requests(
        kind=_kind(context.requests, generation.requests),
        batch=context.requests + generation.requests,
        tokens=context.tokens + generation.tokens,
        prefill_tokens=context.tokens,
        decode_tokens=generation.tokens,
        keys=(context.keys or 0) + (generation.keys or 0) if has_sums else None,
        scores=context.scores + generation.scores if has_sums else None,
    )


class _Part(NamedTuple):
    """The requests of one kind in a step of vLLM: their number, and sums over them; of old versions only the tokens."""

    listed: int | None
    query: int | None
    keys: int | None
    squared: int | None
    pairs: int | None
    plain: int | None

    @property
    def requests(self) -> int:
        return self.listed or 0

    @property
    def tokens(self) -> int:
        return self.query if self.query is not None else self.plain or 0

    @property
    def scores(self) -> int:
        """The pairs without those that the causal mask leaves out: half of those among the new tokens."""
        pairs, squared = self.pairs or 0, self.squared or 0
        return pairs - squared // 2 if self.tokens > self.requests else pairs


def _kind(prefills: int, decodes: int) -> str:
    if prefills and decodes:
        return MIXED
    return PREFILL if prefills else DECODE if decodes else ""


def _of_plain_vllm(found: re.Match[str]) -> Requests:
    new, cached = int(found[1]), int(found[2])
    return Requests(_kind(new, cached), new + cached, None if new else cached, None, cached)


def _of_sglang(found: re.Match[str]) -> Requests | None:
    mode, fields = found[1], dict(_FIELD.findall(found[2]))
    if mode not in (*_PREFILL, *_DECODE, *_OTHER_MODES) or "bs" not in fields:
        return None  # a range of the user's that only looks alike
    kind = PREFILL if mode in _PREFILL else DECODE if mode in _DECODE else MIXED if mode == "MIXED" else ""
    batch = int(fields["bs"])
    said = fields.get("toks", fields.get("tokens"))
    tokens = int(said) if said is not None else batch if mode == "DECODE" else None
    return Requests(
        kind,
        batch,
        tokens,
        tokens if kind == PREFILL else 0 if kind == DECODE else None,
        tokens if kind == DECODE else 0 if kind == PREFILL else None,
    )
