"""Losses and their gradients in GPU kernels, which `tabgnm.nn.losses` defines."""

from __future__ import annotations

import triton
import triton.language as tl

from tabgnm.nn.losses.deviances import LARGEST_LOG

_LARGEST_LOG = tl.constexpr(LARGEST_LOG)


@triton.jit
def loss_and_slope(
    output, target_ptr, target_row, setting, rows, columns, n_rows, n_outputs, KIND: tl.constexpr
):  # fmt: skip
    """Return the losses of `rows`, and their gradient (rows, columns); both are 0 outside the rows and outputs.

    A kernel uses one of the two, and the compiler removes the computation of the other.
    """
    row_inside, is_output = rows < n_rows, (columns < n_outputs)[None, :]
    inside = row_inside[:, None] & is_output
    if KIND == 0:
        target = tl.load(target_ptr + rows * target_row, mask=row_inside, other=0)
        hit = columns[None, :] == target[:, None]
        shifted = tl.where(is_output, output, float("-inf"))
        shifted -= tl.max(shifted, axis=1)[:, None]
        powers = tl.exp(shifted)
        total = tl.sum(powers, axis=1)
        slope = powers / total[:, None] - tl.where(hit, 1 - setting, 0.0) - setting / n_outputs
        loss = tl.log(total) - tl.sum(tl.where(hit, shifted, 0.0), axis=1)
        mean = tl.log(total) - tl.sum(tl.where(is_output, shifted, 0.0), axis=1) / n_outputs
        loss = tl.where(row_inside, loss + setting * (mean - loss), 0.0)
    else:
        target = tl.load(target_ptr + rows[:, None] * target_row + columns[None, :], mask=inside, other=0.0)
        distance = output - target
        if KIND == 1:
            part, slope = distance * distance, 2 * distance
        elif KIND == 2:
            near = tl.minimum(tl.abs(distance), setting)
            part = near * (tl.abs(distance) - 0.5 * near)
            slope = tl.minimum(tl.maximum(distance, -setting), setting)
        elif KIND == 3:
            part = tl.maximum((1 - setting) * distance, -setting * distance)
            slope = tl.where(distance > 0, 0.5, tl.where(distance < 0, -0.5, 0.0)) + (0.5 - setting)
        elif KIND == 4:
            part = tl.maximum(output, 0.0) - output * target + tl.log(1 + tl.exp(-tl.abs(output)))
            slope = tl.sigmoid(output) - target
        elif KIND == 5:
            part, slope = tl.abs(distance), tl.where(distance > 0, 1.0, tl.where(distance < 0, -1.0, 0.0))
        else:
            logs = tl.minimum(tl.maximum(output, -_LARGEST_LOG), _LARGEST_LOG)
            log_target = tl.log(tl.where(target > 0, target, 1.0))
            if KIND == 6:
                part = target * (log_target - logs - 1) + tl.exp(logs)
            elif KIND == 7:
                part = logs - log_target + target * tl.exp(-logs) - 1
            else:
                tl.static_assert(KIND == 8, "this loss has no formula here")
                constant = tl.where(target > 0, tl.exp((2 - setting) * log_target), 0.0) / (1 - setting)
                part = (constant + tl.exp((2 - setting) * logs)) / (2 - setting)
                part -= target * tl.exp((1 - setting) * logs) / (1 - setting)
            slope = 2 * (tl.exp((2 - setting) * logs) - target * tl.exp((1 - setting) * logs))
            part = 2 * part + slope * (output - logs)
        # A maximum or minimum may have dropped NaN, which must be kept to detect diverging models.
        loss = tl.sum(tl.where(inside, part + (output - output), 0.0), axis=1)
    return loss, tl.where(inside, slope, 0.0)
