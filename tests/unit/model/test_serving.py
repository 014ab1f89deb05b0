"""Ranges of inference servers."""

from __future__ import annotations

import pytest

from torchprof_magic.model.serving import Requests, requests_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            Requests("decode", 32, 32, 0, 32, 55086, 55086),
        ),
        # 15 requests of 1024 tokens: half of their pairs are masked.
        (
            "execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_generation_0(sq0sk0sqsq0sqsk0)",
            Requests("prefill", 15, 15360, 15360, 0, 15360, 15728640 // 2),
        ),
        (
            "execute_101_context_1(sq100sk100sqsq10000sqsk10000)_generation_1(sq1sk7sqsq1sqsk7)",
            Requests("mixed", 2, 101, 100, 1, 107, 5007),
        ),
        ("execute_context_1(128)_generation_3(3)", Requests("mixed", 4, 131, 128, 3)),
        ("execute_new_0_cached_8", Requests("decode", 8, 8, None, 8)),
        ("step[DECODE bs=32]", Requests("decode", 32, 32, 0, 32)),
        ("step[EXTEND bs=15 toks=15360]", Requests("prefill", 15, 15360, 15360, 0)),
        ("step[MIXED bs=4 toks=90]", Requests("mixed", 4, 90)),
        ("step[IDLE bs=0]", Requests("", 0, None)),
    ],
)
def test_a_step_says_what_it_serves(name: str, expected: Requests) -> None:
    assert requests_of(name) == expected


@pytest.mark.parametrize("name", ["execute", "execute_model", "step", "step[]", "Step[DECODE]", "ProfilerStep#3", ""])
def test_other_names_are_no_steps_of_a_server(name: str) -> None:
    assert requests_of(name) is None
