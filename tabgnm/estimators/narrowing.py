"""Selection of the columns of a very wide table that become inputs of networks.

A dense GNM has a node for each input, so the time of a step grows with the square of the number of columns. With
thousands of columns, as in genomics, a fit would take minutes or hours. If a table has more than `NARROWED_FROM`
inputs, a column is used only if it is related to the target on the training rows of at least one fold. Each network
then tests these columns on its own training rows (see `screening`), so that held-out rows do not influence its inputs.
This second test is omitted if the table still has more than `MAX_COPIED_NUMBERS` numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.estimators.fitting import PreparedRows
from tabgnm.estimators.screening import MIN_ROWS, sample_of_rows, unrelated_columns
from tabgnm.table import TableEncoder

Array = NDArray[Any]

NARROWED_FROM = 500  # encoded columns (numbers, and levels as one-hot columns)
_MAX_TESTED_NUMBERS = 5 * 10**7  # encoded numbers in the test, 200 MB


def n_inputs(encoder: TableEncoder) -> int:
    """Return the number of encoded columns without those of embedded categories."""
    return encoder.n_encoded if encoder.embedding is None else encoder.embedding.n_plain + encoder.embedding.n_numeric


def unused_columns(rows: PreparedRows, encoder: TableEncoder) -> tuple[int, ...]:
    """Return the positions of the raw columns that are not related to the target in any fold.

    Categories with an embedding are always used.
    """
    n_tested = n_inputs(encoder)
    sample = sample_of_rows(rows.n_rows, max(MIN_ROWS, _MAX_TESTED_NUMBERS // n_tested))
    x = encoder.encode(rows.raw.take(sample))
    y = rows.target_tensor(rows.targets, torch.float64)[sample].numpy()
    owners = np.array(encoder.owners)
    used = set(owners[n_tested:].tolist())
    trained_on = {fold.train.numpy().tobytes(): fold.train.numpy() for fold in rows.folds}
    for train in trained_on.values():
        own = np.isin(sample, train)
        if not own.any():  # none of the few rows of a fold is in the sample, so nothing is known
            return ()
        related = np.ones(n_tested, dtype=bool)
        of_rows = None if rows.weights is None else rows.weights[sample][own]
        related[unrelated_columns(x[own, :n_tested], y[own], of_rows)] = False
        used.update(owners[:n_tested][related].tolist())
    return tuple(column for column in range(encoder.n_columns) if column not in used)
