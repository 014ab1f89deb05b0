from __future__ import annotations

from typing import Any

from support import allocation, annotation, make_trace, span

from torchprof_magic.tables.memory.block_table import allocations_table

NODE = "autograd::engine::evaluate_function: MulBackward0"


def change(at_us: float, address: int, delta: int) -> dict[str, Any]:
    event = allocation(at_us, delta)
    event["args"]["Addr"] = address
    return event


def block(address: int, begin_us: float, end_us: float | None) -> list[dict[str, Any]]:
    begin = change(begin_us, address, 64)
    return [begin] if end_us is None else [begin, change(end_us, address, -64)]


def categories(*events: dict[str, Any]) -> list[str]:
    return allocations_table(make_trace(*events)).frame["category"].to_list()


def test_what_an_op_releases_itself_is_temporary_and_what_it_leaves_is_an_activation() -> None:
    found = categories(span("aten::linear", 0, 10), *block(8, 1, 9), *block(16, 2, 50), *block(24, 3, None))
    assert found == ["temporary", "activation", "activation"]


def test_what_outlives_the_backward_pass_is_a_gradient_and_the_rest_detail_of_autograd() -> None:
    found = categories(
        span("aten::mul", 0, 5),
        span(NODE, 10, 10),
        span(NODE, 30, 10),
        *block(8, 12, 35),
        *block(16, 13, 60),
        *block(24, 14, None),
        *block(32, 15, 18),
        span("aten::mul", 50, 5),
    )
    assert found == ["autograd", "gradient", "gradient", "temporary"]


def test_each_backward_pass_ends_before_the_next_other_op() -> None:
    found = categories(
        span(NODE, 0, 10), span("aten::mul", 20, 5), span(NODE, 30, 10), *block(8, 5, 35), *block(16, 32, 38)
    )
    assert found == ["gradient", "temporary"]


def test_the_scratch_of_an_optimizer_is_temporary_and_what_stays_is_its_state() -> None:
    found = categories(
        annotation("Optimizer.step#Adam.step", 0, 100),
        span("aten::sqrt", 10, 5),
        span("aten::zeros", 40, 5),
        *block(8, 12, 90),
        *block(16, 42, 200),
    )
    assert found == ["temporary", "optimizer_state"]


def test_what_a_data_loader_allocates_is_input() -> None:
    loader = annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 50)
    assert categories(loader, span("aten::stack", 10, 5), *block(8, 12, 90)) == ["input"]


def test_a_tensor_that_the_program_makes_outside_of_other_ops_is_input() -> None:
    found = categories(
        span("aten::randn", 0, 10),
        span("aten::empty", 1, 5),
        *block(8, 2, 90),
        span("aten::dropout", 20, 10),
        span("aten::empty", 21, 5),
        *block(16, 22, 90),
    )
    assert found == ["input", "activation"]


def test_outside_of_ops_nothing_is_known() -> None:
    assert categories(span("aten::mm", 0, 5), *block(8, 7, 9), annotation("train", 10, 5), *block(16, 12, 13)) == [
        "unknown",
        "unknown",
    ]
