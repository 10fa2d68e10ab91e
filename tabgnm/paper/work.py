"""Training one fleet of the protocol and evaluating it on its test rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.metrics import r2_score

from tabgnm.paper import data as paper_data
from tabgnm.paper.data import Encoded
from tabgnm.paper.origin import origin
from tabgnm.paper.protocol import BATCH_SIZE, Unit, folds
from tabgnm.training import Fleet, FleetResult, FleetSettings, Member


@dataclass(frozen=True)
class Result:
    """One training: its settings and its outcome."""

    key: str
    dataset: str
    variant: str
    scaling: str
    epochs: int
    model: str
    width: int
    n_layers: int
    dropout: float
    learning_rate: float
    fold: int
    n_parameters: int
    best_epoch: int
    status: str
    val_loss: float | None
    metric1: float | None  # accuracy in percent, or mean squared error
    metric2: float | None  # macro F1 in percent, or R²
    seconds: float  # its share of the fleet's time
    origin: str  # where and when it was trained


def run_unit(unit: Unit, *, data_home: str | None = None, device: str = "auto") -> list[Result]:
    """Train and evaluate all models of a unit. The same unit gives the same results, except for times and origin."""
    began = time.perf_counter()
    source = unit.source
    data = paper_data.load(source.name, source.variant, data_home)
    if data.source.digest != source.digest:
        raise ValueError(
            f"data set {source.name!r} differs from the one that the work was planned with; use the same files"
        )
    every_fold = list(folds(source.n_rows, unit.setting))
    encoded = dict(zip(unit.folds, data.encoded([every_fold[fold] for fold in unit.folds], unit.setting), strict=True))
    tables = list({id(own.table): own.table for own in encoded.values()}.values())
    members = [
        Member(
            train=torch.as_tensor(every_fold[fold].train),
            val=torch.as_tensor(every_fold[fold].val),
            # Derived from the key of the training, so it does not depend on the other models in the fleet.
            seed=int(unit.key(training, fold)[:12], 16),
            learning_rate=training.learning_rate,
            dropout=training.dropout,
            table=next(at for at, table in enumerate(tables) if table is encoded[fold].table),
        )
        for training, fold in unit.members()
    ]
    settings = FleetSettings(loss=data.loss, max_epochs=unit.setting.max_epochs, batch_size=BATCH_SIZE, device=device)
    where, shape = settings.torch_device(), unit.body.shape(source.n_inputs, source.n_outputs)
    result = Fleet(shape, members, settings).fit(tables)
    if any(model.history.status == "interrupted" for model in result.models):
        raise KeyboardInterrupt
    seconds = (time.perf_counter() - began) / len(members)
    made, rows = origin(where), []
    for position, (training, fold) in enumerate(unit.members()):
        history = result.models[position].history
        metric1, metric2 = _evaluate(result, position, encoded[fold], every_fold[fold].test, source.task, where)
        rows.append(
            Result(
                key=unit.key(training, fold),
                dataset=source.name,
                variant=source.variant,
                scaling=unit.setting.scaling,
                epochs=unit.setting.max_epochs,
                model=unit.body.model,
                width=unit.body.width,
                n_layers=unit.body.n_layers,
                dropout=training.dropout,
                learning_rate=training.learning_rate,
                fold=fold,
                n_parameters=shape.n_parameters(),
                best_epoch=history.best_epoch,
                status=history.status,
                val_loss=history.best_val_loss if np.isfinite(history.best_val_loss) else None,
                metric1=metric1,
                metric2=metric2,
                seconds=seconds,
                origin=made,
            )
        )
    return rows


def _evaluate(
    result: FleetResult, position: int, encoded: Encoded, test: np.ndarray[Any, Any], task: str, device: torch.device
) -> tuple[float | None, float | None]:
    """Return accuracy and macro F1 in percent, or mean squared error and R²; None if outputs are not finite."""
    rows, table = torch.as_tensor(test), encoded.table
    outputs = result.predict(table.x[rows], models=[position], device=device)[0]
    if not torch.isfinite(outputs).all():
        return None, None
    if task == "regression":
        truth, predicted = (own[:, 0].double().numpy() for own in (table.y[rows], outputs))
        return encoded.scale**2 * float(np.mean((truth - predicted) ** 2)), float(r2_score(truth, predicted))
    # The authors' code compares the logit of two classes with 0.5; correct is 0.
    labels = outputs.argmax(dim=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
    known = table.y[rows] if table.y.dim() == 1 else table.y[rows, 0].long()
    accuracy = 100 * float((known == labels).double().mean())
    return accuracy, 100 * macro_f1(known.numpy(), labels.numpy())


def macro_f1(known: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """Return the mean F1 of the classes that occur in either array; a class that is never predicted correctly has 0.

    Equal to scikit-learn's `f1_score`, but without its checks, which take as long as training the models of a fleet.
    """
    n_classes = 1 + max(known.max(), labels.max())
    hits, is_known, is_given = (
        np.bincount(own, minlength=n_classes) for own in (known[known == labels], known, labels)
    )
    occurs = is_known + is_given
    return float(np.mean(2 * hits[occurs > 0] / occurs[occurs > 0]))
