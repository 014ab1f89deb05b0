"""Recurrent layers in one op."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of

_GROUP = "Recurrent layers"
# Gates by torch's number of the kind: RNN with ReLU and with tanh, LSTM, GRU.
_GATES = {0: 1, 1: 1, 2: 4, 3: 3}
_FLOPS = "2 · steps · batch · gates · hidden · (features of the input + hidden), for each layer and direction"


class _Places(NamedTuple):
    """At which inputs the kind, the size, that of the projection, the layers and the directions stand."""

    mode: int
    hidden: int
    projection: int | None
    layers: int
    is_bidirectional: int


def _layers(inputs: Inputs, x: Tensor, places: _Places) -> tuple[int, Tensor]:
    """Return the FLOPs of the forward pass, and the output."""
    gates, hidden = _GATES[inputs.number(places.mode)], inputs.number(places.hidden)
    out = (inputs.number(places.projection) if places.projection else 0) or hidden
    directions = 2 if inputs.is_true(places.is_bidirectional) else 1
    steps, features, flops = prod(x.dims[:-1]), x.dims[-1], 0
    for layer in range(inputs.number(places.layers)):
        given = out * directions if layer else features
        products = gates * hidden * (given + out) + (hidden * out if out != hidden else 0)
        flops += directions * 2 * steps * products
    return flops, Tensor([*x.dims[:-1], out * directions], x.dtype)


def _forward(inputs: Inputs, places: _Places) -> Work:
    x, weights = inputs.tensor(0), _weights(inputs)
    flops, out = _layers(inputs, x, places)
    return Work(flops, bytes_of([x, out, *weights]), x.dtype, is_matrix=True)


def _backward(inputs: Inputs, places: _Places) -> Work:
    x, weights = inputs.tensor(0), _weights(inputs)
    flops, out = _layers(inputs, x, places)
    return Work(2 * flops, bytes_of([x, x, out, out, *weights, *weights]), x.dtype, is_matrix=True)


def _weights(inputs: Inputs) -> list[Tensor]:
    """Return the weights of all layers, which have the type of the input."""
    return [Tensor(dims, inputs.dtype(0)) for dims, _ in inputs.listed(1)]


def _one_layer(inputs: Inputs) -> Work:
    x, of_input, of_hidden = inputs.tensor(0, 3), inputs.tensor(1), inputs.tensor(2)
    steps, batch, _ = x.dims
    out = Tensor([steps, batch, of_hidden.dims[-1]], x.dtype)
    flops = 2 * steps * batch * (of_input.numel + of_hidden.numel)
    return Work(flops, bytes_of([x, of_input, of_hidden, out]), x.dtype, is_matrix=True)


def _one_layer_backward(inputs: Inputs) -> Work:
    forward = _one_layer(inputs)
    return forward._replace(flops=2 * forward.flops, bytes=None if forward.bytes is None else 2 * forward.bytes)


def _row(op: str, flops: str, moves: str, places: _Places, *, is_backward: bool = False) -> Formula:
    work = _backward if is_backward else _forward
    return Formula(group=_GROUP, ops=(op,), flops=flops, moves=moves, work=lambda inputs: work(inputs, places))


_MOVES = "input, output and weights"
_BACK_MOVES = "input, output and weights, and the gradient of each"
FORMULAS = (
    _row("aten::_cudnn_rnn", _FLOPS, _MOVES, _Places(6, 7, 8, 9, 13)),
    _row("aten::_cudnn_rnn_backward", f"twice: {_FLOPS}", _BACK_MOVES, _Places(10, 11, 12, 13, 17), is_backward=True),
    _row("aten::miopen_rnn", _FLOPS, _MOVES, _Places(5, 6, None, 7, 11)),
    _row("aten::miopen_rnn_backward", f"twice: {_FLOPS}", _BACK_MOVES, _Places(9, 10, None, 11, 15), is_backward=True),
    Formula(
        group=_GROUP,
        ops=("aten::mkldnn_rnn_layer_backward",),
        flops="4 · steps · batch · elements of both weights",
        moves=_BACK_MOVES,
        work=_one_layer_backward,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::mkldnn_rnn_layer",),
        flops="2 · steps · batch · elements of both weights",
        moves=_MOVES,
        work=_one_layer,
    ),
)
