"""Sixteen int32 numbers side by side, one for each of sixteen instances: a vector type for kernels.

Compiled loops vectorise over contiguous memory, but a tree search is a chain of short loops. With one
instance in each lane every step of one search does the same for sixteen, whatever the loops' lengths.
LLVM maps the type onto the machine's registers: one of AVX-512, two of AVX2, four of NEON.

Each operation is written twice: in numpy, which says what it does and runs where kernels are interpreted,
and as LLVM instructions for compiled callers. Sums wrap around at 2^31, as int32 does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 16
"""Numbers in a vector."""

_VECTOR = ir.VectorType(ir.IntType(32), LANES)

Generated = tuple[Any, Callable[..., Any]]


def aligned(*shape: int) -> np.ndarray:
    """Zeros, int32 of `shape` + (LANES,), on a boundary of 64 bytes: no vector straddles two cache lines."""
    numbers = int(np.prod(shape)) * LANES
    room = np.zeros(numbers + LANES, dtype=np.int32)
    start = -(room.ctypes.data // 4) % LANES
    return room[start : start + numbers].reshape(*shape, LANES)


def load(array: np.ndarray, index: int) -> Any:
    """Vector number `index` of a C-contiguous int32 array whose last axis is LANES long."""
    return array.reshape(-1, LANES)[index].copy()


def store(array: np.ndarray, index: int, vector: Any) -> None:
    """Write vector number `index`."""
    array.reshape(-1, LANES)[index] = vector


def add(a: Any, b: Any) -> Any:
    """Sum in every lane."""
    return a + b


def minimum(a: Any, b: Any) -> Any:
    """The smaller number in every lane."""
    return np.minimum(a, b)


def not_above(a: Any, b: Any) -> int:
    """In which lanes ``a <= b``: bit `l` of the result for lane `l`."""
    return int(((a <= b) << np.arange(LANES)).sum())


class _Lanes(types.Type):
    """The numba type of one vector."""

    def __init__(self) -> None:
        super().__init__(name=f"lanes(int32 x {LANES})")


_LANES = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _VECTOR.as_pointer()), [index])


@intrinsic
def _load(typing: Any, array: Any, index: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, array, *arguments), align=4)

    return _LANES(array, types.intp), generate


@intrinsic
def _store(typing: Any, array: Any, index: Any, vector: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _pointer(context, builder, array, *arguments[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), generate


@intrinsic
def _add(typing: Any, a: Any, b: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.add(*arguments)

    return _LANES(_LANES, _LANES), generate


@intrinsic
def _minimum(typing: Any, a: Any, b: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.icmp_signed("<", *arguments), *arguments)

    return _LANES(_LANES, _LANES), generate


@intrinsic
def _not_above(typing: Any, a: Any, b: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(builder.icmp_signed("<=", *arguments), ir.IntType(LANES))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(_LANES, _LANES), generate


overload(load)(lambda array, index: lambda array, index: _load(array, index))
overload(store)(lambda array, index, vector: lambda array, index, vector: _store(array, index, vector))
overload(add)(lambda a, b: lambda a, b: _add(a, b))
overload(minimum)(lambda a, b: lambda a, b: _minimum(a, b))
overload(not_above)(lambda a, b: lambda a, b: _not_above(a, b))
