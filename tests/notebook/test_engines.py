"""Output of cells that are recorded on the engines of an ipyparallel cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kernels import Kernel, started

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER = """
import ipyparallel
cluster = ipyparallel.Cluster(n=2, log_level=40)
view = cluster.start_and_connect_sync()[:]
view.block = True
view.activate()
"""
WIDGET = "application/vnd.jupyter.widget-view+json"
LOOP = "for _ in range(6):\n    (torch.ones(32, 32) @ torch.ones(32, 32)).sum()\n"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(CLUSTER) as found:
        found.run("%%px\n%load_ext torchprof_magic\nimport torch")
        yield found
        found.run("cluster.stop_cluster_sync()")


def asked(kernel: Kernel, what: str) -> str:
    """Return the output of ``what`` on every engine, and whether a profiler is on there."""
    kernel.run(f"%%px\nsaid = {what}, torch.autograd._profiler_enabled()")
    return kernel.run("print(view['said'])").text


def test_each_engine_shows_its_report_as_text_and_tables_and_no_widget_that_could_not_ask_it(kernel: Kernel) -> None:
    cell = kernel.run(f"%%px\n%%torchprof -o report\n{LOOP}")
    assert cell.reply["status"] == "ok"
    shown = [content for content in cell.of("display_data") if "engine" in content["metadata"]]
    assert sorted(content["metadata"]["engine"] for content in shown) == [0, 1]
    for content in shown:
        assert "steps 2\N{EN DASH}4 recorded, stepped by line 2" in content["data"]["text/html"]
        assert WIDGET not in content["data"]
    said = asked(kernel, "report.steps['number'].to_list()")
    assert said.count("[2, 3, 4], False") == 2


def test_an_error_on_an_engine_is_its_own_and_what_was_recorded_is_there(kernel: Kernel) -> None:
    cell = kernel.run(f"%%px\n%%torchprof -o report\n{LOOP}    if _ == 3: 1 / 0\n")
    assert cell.reply["status"] == "error"
    assert "ZeroDivisionError" in str(cell.messages)
    said = asked(kernel, "report.steps['complete'].to_list()")
    assert said.count("[True, False], False") == 2
