"""Inner products of long rows: eight numbers side by side, summed in one order on every machine.

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
"""Numbers in a vector of float64, half of those in one of float32; rows are padded with zeros to a multiple.
"""


def padded(matrix: np.ndarray, width: int = WIDTH) -> np.ndarray:
    """A C-contiguous copy whose rows are filled up with zeros to a multiple of `width`."""
    n, d = matrix.shape
    out = np.zeros((n, -(-d // width) * width), matrix.dtype)
    out[:, :d] = matrix
    return out


def dot(matrix: np.ndarray, row: int, vector: np.ndarray) -> float:
    """``<matrix[row], vector>`` of C-contiguous float64, or float32; rows have whole vectors."""
    sums = np.zeros(WIDTH * 8 // matrix.itemsize, matrix.dtype)
    for products in (matrix[row] * vector).reshape(-1, len(sums)):
        sums = sums + products
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return float(sums[0])


@intrinsic
def _dot(typing: Any, matrix: Any, row: Any, vector: Any) -> tuple[Any, Callable[..., Any]]:
    number, width = (ir.FloatType(), 2 * WIDTH) if matrix.dtype == types.float32 else (ir.DoubleType(), WIDTH)
    vectors = ir.VectorType(number, width)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = cgutils.create_struct_proxy(matrix)(context, builder, arguments[0]).data
        other = cgutils.create_struct_proxy(vector)(context, builder, arguments[2])
        length = cgutils.unpack_tuple(builder, other.shape)[0]
        first = builder.gep(rows, [builder.mul(arguments[1], length)])
        left = builder.bitcast(first, vectors.as_pointer())
        right = builder.bitcast(other.data, vectors.as_pointer())
        sums = cgutils.alloca_once(builder, vectors)
        builder.store(ir.Constant(vectors, [0.0] * width), sums)
        with cgutils.for_range(builder, builder.udiv(length, ir.Constant(length.type, width))) as loop:
            a, b = (builder.load(builder.gep(p, [loop.index]), align=4) for p in (left, right))
            builder.store(builder.fadd(builder.load(sums), builder.fmul(a, b)), sums)
        whole, left_over = builder.load(sums), width // 2
        while left_over:
            halves = (range(left_over), range(left_over, 2 * left_over))
            low, high = (_part(builder, whole, half) for half in halves)
            whole, left_over = builder.fadd(low, high), left_over // 2
        total = builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))
        return total if width == WIDTH else builder.fpext(total, ir.DoubleType())

    return types.float64(matrix, types.intp, vector), generate


def _part(builder: Any, whole: Any, places: range) -> Any:
    """Some numbers of a vector, as a shorter one."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(whole, whole, mask)


overload(dot)(lambda matrix, row, vector: lambda matrix, row, vector: _dot(matrix, row, vector))
