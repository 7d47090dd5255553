"""Inner products of long rows: eight float64 side by side, summed in one order on every machine.

Compiled loops do not vectorise a sum, whose order they must keep; eight partial sums in a vector register
are fixed too, and several times faster. Written twice, as in `lanes`: in numpy for where kernels are
interpreted, and as LLVM instructions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

WIDTH = 8
"""Numbers in a vector; rows are padded with zeros to a multiple of it."""

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


def padded(matrix: np.ndarray) -> np.ndarray:
    """A C-contiguous float64 copy whose rows are filled up with zeros to a multiple of `WIDTH`."""
    n, d = matrix.shape
    out = np.zeros((n, -(-d // WIDTH) * WIDTH))
    out[:, :d] = matrix
    return out


def dot(matrix: np.ndarray, row: int, vector: np.ndarray) -> float:
    """``<matrix[row], vector>`` of C-contiguous float64 whose length is a multiple of `WIDTH`."""
    sums = np.zeros(WIDTH)
    for products in (matrix[row] * vector).reshape(-1, WIDTH):
        sums = sums + products
    while len(sums) > 1:
        sums = sums[::2] + sums[1::2]
    return float(sums[0])


@intrinsic
def _dot(typing: Any, matrix: Any, row: Any, vector: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = cgutils.create_struct_proxy(matrix)(context, builder, arguments[0]).data
        other = cgutils.create_struct_proxy(vector)(context, builder, arguments[2])
        length = cgutils.unpack_tuple(builder, other.shape)[0]
        first = builder.gep(rows, [builder.mul(arguments[1], length)])
        left = builder.bitcast(first, _VECTOR.as_pointer())
        right = builder.bitcast(other.data, _VECTOR.as_pointer())
        sums = cgutils.alloca_once(builder, _VECTOR)
        builder.store(ir.Constant(_VECTOR, [0.0] * WIDTH), sums)
        with cgutils.for_range(builder, builder.udiv(length, ir.Constant(length.type, WIDTH))) as loop:
            a, b = (builder.load(builder.gep(p, [loop.index]), align=8) for p in (left, right))
            builder.store(builder.fadd(builder.load(sums), builder.fmul(a, b)), sums)
        vector_sum, index = builder.load(sums), ir.IntType(32)
        parts = [builder.extract_element(vector_sum, ir.Constant(index, i)) for i in range(WIDTH)]
        while len(parts) > 1:
            parts = [builder.fadd(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return parts[0]

    return types.float64(matrix, types.intp, vector), generate


overload(dot)(lambda matrix, row, vector: lambda matrix, row, vector: _dot(matrix, row, vector))
