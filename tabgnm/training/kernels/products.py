"""Products of matrices in a GPU kernel, on tensor cores with the accuracy of float32 arithmetic."""

from __future__ import annotations

import triton
import triton.language as tl

# The number of bfloat16 parts into which `product` splits a number, by precision. Two hold more bits than TF32.
PARTS = {"float32": 3, "tf32": 2, "bf16": 1}


def tile_side(n: int) -> int:
    """Return the smallest power of 2 that is at least `n`, and at least 16, as tensor cores require."""
    return max(16, int(triton.next_power_of_2(n)))


@triton.jit
def _split(x, PARTS: tl.constexpr):
    """Return bfloat16 numbers that add up to x: three hold all its 24 significant bits, two hold 17."""
    # Truncating takes fewer instructions than rounding, and three parts are exact either way.
    high = (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    rest = x - high
    middle = (rest.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True) if PARTS == 3 else rest
    return high.to(tl.bfloat16), middle.to(tl.bfloat16), (rest - middle).to(tl.bfloat16)


@triton.jit
def product(left, right, total, PARTS: tl.constexpr):
    """Return left @ right + total. With three parts it is as accurate as float32 arithmetic, but on tensor cores."""
    if PARTS == 1:
        return tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16), total)
    else:
        left_1, left_2, left_3 = _split(left.to(tl.float32), PARTS)
        right_1, right_2, right_3 = _split(right.to(tl.float32), PARTS)
        # The smallest products come first. Those that are left out are below the last bit of the result.
        if PARTS == 3:
            small = tl.dot(left_2, right_2)
            small = tl.dot(left_3, right_1, small)
            small = tl.dot(left_1, right_3, small)
            small = tl.dot(left_2, right_1, small)
        else:
            small = tl.dot(left_2, right_1)
        small = tl.dot(left_1, right_2, small)
        # Tensor cores truncate sums, so the long sum is added here, with rounding.
        return total + tl.dot(left_1, right_1, small)
