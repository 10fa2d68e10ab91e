"""One fleet of the protocol: trained, evaluated on its test rows, and returned as rows of results."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score, r2_score

from tabgnm.paper import data as paper_data
from tabgnm.paper.protocol import BATCH_SIZE, Unit, folds
from tabgnm.training import Fleet, FleetResult, FleetSettings, Member, Table


@dataclass(frozen=True)
class Result:
    """One training: what it was, and what came out."""

    key: str
    dataset: str
    variant: str
    scaling: str
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
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def run_unit(unit: Unit, *, data_home: str | None = None, device: str = "auto", verbose: int = 0) -> list[Result]:
    """Train and evaluate all models of a unit. The same unit gives the same results, wherever it runs."""
    began = time.perf_counter()
    source = unit.source
    data = paper_data.load(source.name, source.variant, data_home)
    if data.source.digest != source.digest:
        raise ValueError(
            f"data set {source.name!r} has another content here than where the work was planned; use the same files"
        )
    every_fold = list(folds(source.n_rows, unit.setting))
    tables = [data.encoded(every_fold[number], unit.setting) for number in unit.folds]
    members = []
    for training, number in unit.members():
        fold = every_fold[number]
        members.append(
            Member(
                train=torch.as_tensor(fold.train),
                val=torch.as_tensor(fold.val),
                # Both models and all configurations of a fold start from seeds of their own.
                seed=int(unit.key(training, number)[:12], 16),
                learning_rate=training.learning_rate,
                dropout=training.dropout,
                table=unit.folds.index(number),
            )
        )
    settings = FleetSettings(
        loss=data.loss, max_epochs=unit.setting.max_epochs, batch_size=BATCH_SIZE, device=device
    )
    shape = unit.body.shape(source.n_inputs, source.n_outputs)
    result = Fleet(shape, members, settings).fit(tables, verbose=verbose)
    if any(model.history.status == "interrupted" for model in result.models):
        raise KeyboardInterrupt
    seconds = (time.perf_counter() - began) / len(members)
    rows = []
    for position, (training, number) in enumerate(unit.members()):
        history = result.models[position].history
        metrics = _evaluate(result, position, tables[unit.folds.index(number)], every_fold[number].test, source.task)
        rows.append(
            Result(
                key=unit.key(training, number),
                dataset=source.name,
                variant=source.variant,
                scaling=unit.setting.scaling,
                model=unit.body.model,
                width=unit.body.width,
                n_layers=unit.body.n_layers,
                dropout=training.dropout,
                learning_rate=training.learning_rate,
                fold=number,
                n_parameters=shape.n_parameters(),
                best_epoch=history.best_epoch,
                status=history.status,
                val_loss=history.best_val_loss if np.isfinite(history.best_val_loss) else None,
                metric1=metrics[0],
                metric2=metrics[1],
                seconds=seconds,
                note=source.note,
            )
        )
    return rows


def _evaluate(
    result: FleetResult, position: int, table: Table, test: np.ndarray[Any, Any], task: str
) -> tuple[float | None, float | None]:
    """Accuracy and macro F1 in percent, or mean squared error and R²; None where a model gives no finite numbers."""
    rows = torch.as_tensor(test)
    outputs = result.predict(table.x[rows], models=[position])[0]
    if not torch.isfinite(outputs).all():
        return None, None
    if task == "regression":
        truth, predicted = table.y[rows, 0].double().numpy(), outputs[:, 0].double().numpy()
        return float(np.mean((truth - predicted) ** 2)), float(r2_score(truth, predicted))
    # The authors threshold the logit of two classes at 0.5; 0 is what they mean.
    labels = outputs.argmax(dim=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
    known = table.y[rows] if table.y.dim() == 1 else table.y[rows, 0].long()
    truth, predicted = known.numpy(), labels.numpy()
    accuracy = 100 * float(np.mean(truth == predicted))
    return accuracy, 100 * float(f1_score(truth, predicted, average="macro", zero_division=0))
