from __future__ import annotations

import weakref

import torch

from torchprof_magic.capture.torch_api.storages import storage_address, storage_behind


def test_a_storage_that_was_looked_up_outlives_its_last_tensor() -> None:
    tensors = [torch.ones(100)]
    address, ref = storage_address(tensors[0]), weakref.ref(tensors[0].untyped_storage())
    storage = storage_behind(ref)
    tensors.clear()
    assert storage is not None
    assert (storage.data_ptr(), storage.nbytes(), storage_behind(ref)) == (address, 400, storage)
    del storage
    assert storage_behind(ref) is None


def test_a_look_at_a_storage_leaves_it_to_its_tensor() -> None:
    gone: list[object] = []
    tensors = [torch.ones(100)]
    ref = weakref.ref(tensors[0].untyped_storage(), gone.append)
    for _ in range(3):
        assert storage_behind(ref) is not None
    assert not gone
    tensors.clear()
    assert gone == [ref]
