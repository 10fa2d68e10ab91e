"""Selection of the columns of a very wide table that become inputs of networks.

A dense GNM has a node for each input, so the time of a step grows with the square of the number of columns. With
thousands of columns, as in genomics, a fit would take minutes or hours. If a table has more than `NARROWED_FROM`
inputs, a column is used only if it is related to the target on the training rows of at least one fold. Each network
then tests these columns on its own training rows (see `screening`), so that held-out rows do not influence its inputs.
This second test is omitted by default if the table still has more than `MAX_COPIED_NUMBERS` numbers.

If in most folds no more columns are related than by chance, the test cannot choose among them, and a table that is not
too wide keeps all columns (see `can_keep`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.estimators.fitting import Narrowed, PreparedRows
from tabgnm.estimators.screening import MIN_ROWS, is_informative, log_p_values, sample_of_rows, unrelated
from tabgnm.table import TableEncoder
from tabgnm.training.threads import single_threaded_math

Array = NDArray[Any]

NARROWED_FROM = 500  # encoded columns (numbers, and levels as one-hot columns)
_MAX_TESTED_NUMBERS = 5 * 10**7  # encoded numbers in the test, 200 MB
# Encoded columns of a table that keeps all of them if the test cannot choose. A fit with the defaults takes up to about
# five times as long as with 500 columns: the time of a GNM grows with the square of the columns.
_MAX_KEPT_GNM, _MAX_KEPT_MLP = 1_000, 2_000


def n_inputs(encoder: TableEncoder) -> int:
    """Return the number of encoded columns without those of embedded categories."""
    return encoder.n_encoded if encoder.embedding is None else encoder.embedding.n_plain + encoder.embedding.n_numeric


def can_keep(n_columns: int, n_rows: int, *, is_mlp: bool) -> bool:
    """Whether networks can use all encoded columns of a table in reasonable time and memory."""
    return n_columns <= min(_MAX_KEPT_MLP if is_mlp else _MAX_KEPT_GNM, _MAX_TESTED_NUMBERS // n_rows)


def narrow(rows: PreparedRows, encoder: TableEncoder, seconds: float = np.inf) -> Narrowed:
    """Test the columns of a table on the training rows of each fold; categories with an embedding are always used.

    If the test of all folds would take more than this number of seconds, tests only the first folds, at least one.
    """
    n_tested = n_inputs(encoder)
    sample = sample_of_rows(rows.n_rows, max(MIN_ROWS, _MAX_TESTED_NUMBERS // n_tested))
    x = encoder.encode(rows.raw.take(sample))
    y = rows.target_tensor(rows.targets, torch.float64)[sample].numpy()
    owners = np.array(encoder.owners)
    used = set(owners[n_tested:].tolist())
    n_informative, n_folds = 0, len(rows.folds)
    known: set[bytes] = set()  # training rows that were tested
    began = time.monotonic()
    with single_threaded_math():
        for number, fold in enumerate(rows.folds):
            train = fold.train.numpy()
            if train.tobytes() in known:
                continue
            if known and (time.monotonic() - began) * (1 + 1 / len(known)) > seconds:
                n_folds = number
                break
            known.add(train.tobytes())
            own = np.isin(sample, train)
            if not own.any():  # none of the few rows of a fold is in the sample, so nothing is known
                return Narrowed((), n_folds, True)
            of_rows = None if rows.weights is None else rows.weights[sample][own]
            log_p = log_p_values(x[own, :n_tested], y[own], of_rows)
            n_informative += is_informative(log_p)
            related = np.ones(n_tested, dtype=bool)
            related[unrelated(log_p)] = False
            used.update(owners[:n_tested][related].tolist())
    unused = tuple(column for column in range(encoder.n_columns) if column not in used)
    return Narrowed(unused, n_folds, 2 * n_informative >= len(known))
