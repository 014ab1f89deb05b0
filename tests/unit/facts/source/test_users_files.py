"""Files are told apart by who wrote them."""

from __future__ import annotations

import polars as pl
import pytest

from torchprof_magic.facts.source.users_files import is_users_file


@pytest.mark.parametrize(
    "file",
    [
        "train.py",
        "/home/me/project/train.py",
        "/var/ipykernel_12/3456.py",
        "<ipython-input-4-abc>",
        "diffusers/models/upsampling.py",
        "/opt/venv/lib/python3.11/site-packages/transformers/modeling.py",
        r"C:\\Users\\me\\train.py",
    ],
)
def test_files_of_the_user_and_of_libraries_say_what_was_written(file: str) -> None:
    assert is_users_file(pl.Series([file])).tolist() == [True]


@pytest.mark.parametrize(
    "file",
    [
        "torch/nn/modules/module.py",
        "/opt/venv/lib/python3.11/site-packages/torch/_ops.py",
        "/usr/lib/python3.11/threading.py",
        "threading.py",
        "asyncio/events.py",
        "<frozen runpy>",
        "<string>",
        "triton/runtime/jit.py",
        "C:\\Python311\\Lib\\threading.py",
        "/var/cache/torchinductor_me/s4/cs4.py",
        "fx_generated__xsk4qtizfbq5nrzdgy2l7w7p6dcqr36ut2t4rka3mvm4whu6big.py",
        "<eval_with_key>.3 from /home/me/train.py:7 in forward",
        "/home/me/torchprof_magic/run/run.py",
        "/opt/conda/lib/python3.12/site-packages/IPython/core/interactiveshell.py",
    ],
)
def test_files_of_torch_and_python_say_how_it_works(file: str) -> None:
    assert is_users_file(pl.Series([file])).tolist() == [False]


def test_a_frame_without_a_file_is_not_the_users() -> None:
    assert is_users_file(pl.Series([None, "a.py"], dtype=pl.String)).tolist() == [False, True]
