"""Small machines: learned from labels or from a fitted estimator, with a path of sizes to choose from."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_friedman1

import tabgnm
from tabgnm import GNMClassifier, GNMRegressor, MLPRegressor
from tabgnm.estimators import lessons, small_machines
from tabgnm.estimators.machines import NoSingleMachine
from tabgnm.export import ExportError, program_of
from tabgnm.report.machine import machine_data, machine_html
from tabgnm.sparsity.path import PENALTIES, PathPoint, PathSettings, learn_path
from tabgnm.table import read_table
from tests.estimators.examples import gnm, gnmr

# Machines of few edges that are hardly trained may be constants on one computer and not on another.
pytestmark = pytest.mark.filterwarnings("ignore:the machine is a constant")

QUICK: dict[str, Any] = {"n_hidden": 6, "n_layers": 2, "n_folds": 2, "n_starts": 1, "random_state": 0}
_GENERATOR = np.random.default_rng(0)


def _frame(n_rows: int = 200) -> pd.DataFrame:
    frame = pd.DataFrame(_GENERATOR.normal(size=(n_rows, 4)), columns=["a", "b", "noise", "more noise"])
    frame["city"] = _GENERATOR.choice(["Oslo", "Rome", "Bonn"], n_rows)
    frame.loc[::17, "a"] = np.nan
    return frame


FRAME = _frame()
NUMBERS = FRAME["a"].fillna(0) * 2 - 1.5 * FRAME["b"] + (FRAME["city"] == "Oslo")
LABELS = np.where(NUMBERS > 0, "yes", "no")


@pytest.fixture(autouse=True)
def _short_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for a moment: the claims here are about what comes out, not how good it is."""
    monkeypatch.setattr(lessons, "_AUGMENTED_ROWS", 400)
    monkeypatch.setattr("tabgnm.sparsity.path.N_STEPS", 600)


def test_a_machine_learned_from_labels_uses_the_columns_that_matter() -> None:
    small = GNMRegressor().fit_sparse(FRAME, NUMBERS, n_edges=12, **QUICK)
    assert small.machine_.n_edges <= 12
    used = {small.fitted_.groups[0].encoder.owners[place] for place in small.machine_.used_inputs}
    assert {0, 1} <= used
    assert small.score(FRAME, NUMBERS) > 0.5


def test_scores_of_a_path_of_counts_are_those_of_counts() -> None:
    counts = np.round(np.exp(NUMBERS.clip(-3, 2)))
    small = GNMRegressor(loss="poisson").fit_sparse(FRAME, counts, **QUICK)
    path = small.sparsity_path_
    # Not of their exponentials: held out or not, the score is about the same.
    assert path["score"][path["chosen"]].item() == pytest.approx(small.score(FRAME, counts), abs=0.3)


def test_the_path_has_a_row_for_each_size_and_says_what_was_chosen() -> None:
    small = GNMRegressor().fit_sparse(FRAME, NUMBERS, **QUICK)
    path = small.sparsity_path_
    assert list(path["edges"]) == sorted(path["edges"], reverse=True)
    assert path["chosen"].sum() == 1
    assert path["edges"][path["chosen"]].item() == small.machine_.n_edges
    best = path["loss"].idxmin()
    within = path[path["loss"] <= path["loss"][best] + path["loss_se"][best]]
    assert path["edges"][path["chosen"]].item() == within["edges"].min()


def test_another_size_of_the_path_needs_no_training() -> None:
    small = GNMRegressor().fit_sparse(FRAME, NUMBERS, **QUICK)
    for most in (30, 8):
        other = small.resized(most)
        assert other.machine_.n_edges <= most
        assert other.sparsity_path_["chosen"].sum() == 1
        assert other.machine_.n_edges == other.sparsity_path_["edges"][other.sparsity_path_["chosen"]].item()
        assert np.isfinite(other.predict(FRAME)).all()


def test_a_size_below_the_path_is_refused() -> None:
    path = [{"edges": 50, "loss": 0.1, "loss_se": 0.01}, {"edges": 5, "loss": 0.3, "loss_se": 0.01}]
    assert [small_machines.choose(path, most, None) for most in (100, 49, 5)] == [0, 1, 1]
    with pytest.raises(ValueError, match="n_edges=4 is too small: the smallest machine of the path has 5 edges"):
        small_machines.choose(path, 4, None)


def test_a_tolerance_allows_for_more_loss() -> None:
    close, far = (GNMRegressor().fit_sparse(FRAME, NUMBERS, tolerance=own, **QUICK) for own in (1e-6, 1e4))
    assert far.machine_.n_edges < close.machine_.n_edges


@pytest.mark.parametrize("penalty", PENALTIES)
def test_every_penalty_gives_machines_of_the_size_that_was_asked_for(penalty: str) -> None:
    small = GNMClassifier().fit_sparse(FRAME, LABELS, n_edges=15, penalty=penalty, **QUICK)
    assert 1 <= small.machine_.n_edges <= 15
    assert set(small.predict(FRAME)) <= {"yes", "no"}


def test_a_machine_is_taught_by_a_pack_and_predicts_much_the_same() -> None:
    teacher = GNMRegressor(n_candidates=1, n_folds=2, max_epochs=15, patience=None, random_state=0)
    teacher.fit(FRAME, NUMBERS)
    small = teacher.distill(FRAME, n_edges=40, **QUICK)
    assert np.corrcoef(small.predict(FRAME), teacher.predict(FRAME))[0, 1] > 0.8
    assert small.fitted_.n_networks == 1
    assert teacher.fitted_.n_networks == 2, "the teacher stays as it was"


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "joint"])
def test_all_kinds_of_class_targets_are_taught(kind: str) -> None:
    three = np.digitize(NUMBERS, [-1.0, 1.0])
    y: Any = {
        "binary": LABELS,
        "multiclass": three,
        "multilabel": np.column_stack([three > 0, three > 1]).astype(int),
        "joint": np.column_stack([three, three > 0]),
    }[kind]
    teacher = GNMClassifier(n_candidates=1, n_folds=2, max_epochs=5, patience=None, random_state=0).fit(FRAME, y)
    small = teacher.distill(FRAME, y, n_edges=60, **QUICK)
    assert np.asarray(small.predict(FRAME)).shape == np.asarray(y).shape
    assert small.machine_.n_edges <= 60


_THREE = np.digitize(NUMBERS, [-1.0, 1.0])


@pytest.mark.parametrize(
    ("y", "learned"),
    [
        (LABELS, LABELS[:, None] == "yes"),
        (_THREE, np.eye(3)[_THREE]),
        (np.column_stack([_THREE > 0, _THREE > 1]).astype(int), np.column_stack([_THREE > 0, _THREE > 1])),
        (np.column_stack([_THREE, _THREE > 0]), np.hstack([np.eye(3)[_THREE], np.eye(2)[(_THREE > 0).astype(int)]])),
        (NUMBERS.to_numpy(), None),
    ],
    ids=["binary", "multiclass", "multilabel", "joint", "numbers"],
)
def test_with_targets_a_machine_learns_from_their_mean_with_the_predictions(y: Any, learned: Any) -> None:
    make: Any = GNMRegressor if learned is None else GNMClassifier
    teacher = make(n_candidates=1, n_folds=0, max_epochs=1, random_state=0).fit(FRAME, y)
    unlabelled, labelled = (
        lessons.lesson_of_teacher(teacher, FRAME, own, None, None, 50, np.random.RandomState(0))[0].table.y.numpy()
        for own in (None, y)
    )
    if learned is None:
        learned = teacher.fitted_.targets.tensor(y, torch.float32).numpy()
    n_rows = len(FRAME)
    np.testing.assert_allclose(labelled[:n_rows], (unlabelled[:n_rows] + learned) / 2, atol=1e-6)
    np.testing.assert_array_equal(labelled[n_rows:], unlabelled[n_rows:])


def _learned_from(teacher: Any, y: Any, sample_weight: Any = None, label_share: float | None = None) -> Any:
    rng = np.random.RandomState(0)
    return lessons.lesson_of_teacher(teacher, FRAME, y, sample_weight, label_share, 50, rng)[0]


def test_weights_of_rows_and_classes_are_those_of_fit_when_a_model_is_distilled() -> None:
    settings: dict[str, Any] = {"n_candidates": 1, "n_folds": 0, "max_epochs": 1, "random_state": 0}
    weights = np.arange(len(FRAME)) % 4
    teacher = GNMClassifier(class_weight={"yes": 3.0, "no": 1.0}, **settings).fit(FRAME, LABELS, weights)
    lesson = _learned_from(teacher, LABELS, weights)
    kept = np.flatnonzero(weights)
    assert lesson.n_real == len(kept)
    by_row = (weights * np.where(LABELS == "yes", 3.0, 1.0))[kept]
    np.testing.assert_allclose(lesson.sample_weight, (by_row / by_row.max())[lesson.source.numpy()])
    predicted = teacher.predict_proba(FRAME)[kept, 1]
    np.testing.assert_allclose(lesson.table.y[: len(kept), 0], (predicted + (LABELS == "yes")[kept]) / 2, atol=1e-6)


def test_labels_that_were_learned_with_weights_are_not_learned_without() -> None:
    settings: dict[str, Any] = {"n_candidates": 1, "n_folds": 0, "max_epochs": 1, "random_state": 0}
    teacher = GNMClassifier(**settings).fit(FRAME, LABELS, np.arange(len(FRAME)) % 2)
    stored = io.BytesIO()
    teacher.save(stored)
    for model in (teacher, tabgnm.load(io.BytesIO(stored.getvalue()))):
        predicted = model.predict_proba(FRAME)[:, 1]
        lesson = _learned_from(model, LABELS)
        np.testing.assert_allclose(lesson.table.y[: len(FRAME), 0], predicted, atol=1e-6)
        assert lesson.judged_by == "target"
        on_purpose = _learned_from(model, LABELS, label_share=1.0)
        np.testing.assert_allclose(on_purpose.table.y[: len(FRAME), 0], LABELS == "yes", atol=1e-6)


def test_machines_are_scored_without_the_weights_of_classes() -> None:
    weights = 1.0 + np.arange(len(FRAME)) % 3
    for given in (None, weights):
        model = GNMClassifier(class_weight={"yes": 50.0, "no": 1.0})
        lesson, _ = lessons.lesson_of_labels(model, FRAME, LABELS, given)
        assert lesson.sample_weight is not None
        assert (lesson.score_weight is None) if given is None else (lesson.score_weight == given / 3).all()


def test_huge_weights_are_as_good_as_their_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.sparsity.path.N_STEPS", 100)
    weights = 1.0 + np.arange(len(FRAME)) % 3
    paths = [
        GNMRegressor().fit_sparse(FRAME, NUMBERS, factor * weights, **{**QUICK, "n_starts": 2}).sparsity_path_
        for factor in (1.0, 2.0**130, 2.0**-600)
    ]
    for other in paths[1:]:
        np.testing.assert_allclose(other[["loss", "loss_se"]], paths[0][["loss", "loss_se"]], rtol=1e-3)


def test_the_share_of_labels_is_validated() -> None:
    teacher = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1).fit(FRAME, NUMBERS)
    with pytest.warns(UserWarning, match=r"label_share=0\.3 is not used: y is not given"):
        lessons.lesson_of_teacher(teacher, FRAME, None, None, 0.3, 0, np.random.RandomState(0))
    with pytest.raises(ValueError, match=r"label_share=1\.5"):
        teacher.distill(FRAME, NUMBERS, label_share=1.5, **QUICK)


def test_targets_that_a_loss_cannot_learn_are_refused_when_a_model_is_distilled() -> None:
    teacher = GNMRegressor(loss="poisson", n_candidates=1, n_folds=0, max_epochs=1).fit(FRAME, NUMBERS**2)
    with pytest.raises(ValueError, match="loss='poisson' expects numbers >= 0"):
        teacher.distill(FRAME, NUMBERS, **QUICK)


def test_several_numbers_and_counts_are_learned() -> None:
    several = np.column_stack([NUMBERS, -NUMBERS])
    assert GNMRegressor().fit_sparse(FRAME, several, n_edges=40, **QUICK).predict(FRAME).shape == several.shape
    counts = np.round(np.exp(NUMBERS / 2))
    small = GNMRegressor(loss="poisson").fit_sparse(FRAME, counts, n_edges=40, **QUICK)
    assert (small.predict(FRAME) > 0).all()


def test_rows_with_more_weight_count_more() -> None:
    weights = np.where(FRAME["a"].fillna(0) > 0, 1.0, 1e-6)
    target = np.where(FRAME["a"].fillna(0) > 0, 5.0, -5.0) + FRAME["b"]
    small = GNMRegressor().fit_sparse(FRAME, target, weights, n_edges=5, **QUICK)
    assert abs(small.predict(FRAME).mean() - 5) < 2


def test_scores_of_the_path_are_weighted() -> None:
    target = np.where(FRAME["b"] > 0, 3.0, -3.0) * FRAME["b"]
    weights = np.where(FRAME["b"] > 0, 1000.0, 1e-3)  # the rows that a linear function can fit
    small = GNMRegressor().fit_sparse(FRAME[["b"]], target, weights, **(QUICK | {"n_layers": 1, "n_hidden": 0}))
    [own] = small._path
    assert own["score"] > 0 > small.score(FRAME[["b"]], target)
    assert small.score(FRAME[["b"]], target, sample_weight=weights) == pytest.approx(own["score"], abs=0.2)


def test_scores_of_folds_do_not_depend_on_the_unit_of_the_target() -> None:
    paths = [GNMRegressor().fit_sparse(FRAME[:6], unit * NUMBERS[:6], **(QUICK | {"n_folds": 6})) for unit in (1, 1e6)]
    for own, other in zip(*(small._path for small in paths), strict=True):
        assert own["score"] == pytest.approx(other["score"], abs=0.01)


def test_a_rare_class_does_not_keep_folds_from_being_stratified() -> None:
    labels = np.array(["a"] * 150 + ["b"] * 49 + ["c"])
    lesson, _ = lessons.lesson_of_labels(GNMClassifier(), FRAME, labels, None)
    folds = small_machines._folds(lesson, 3, np.random.RandomState(0))
    assert [int(np.sum(labels[held_out.numpy()] == "a")) for held_out in folds] == [50, 50, 50]


def _with_copies(n_copies: int = 4) -> tuple[Any, Any, Any]:
    """Rows that are repeated, their labels (noise) and the distinct row of each."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(140), n_copies)
    return rng.normal(size=(140, 3))[rows], rng.integers(0, 2, 140)[rows], rows


def _held_out(lesson: lessons.Lesson, rows: Any) -> list[set[int]]:
    """Return the distinct rows that are held out by each fold."""
    return [set(rows[held_out.numpy()]) for held_out in small_machines._folds(lesson, 3, np.random.RandomState(0))]


def test_copies_of_a_row_are_in_the_same_fold() -> None:
    X, labels, rows = _with_copies()
    teacher = gnm().fit(X, labels)
    numbers = gnmr().fit(X, X[:, 0])
    rng = np.random.RandomState(0)
    for lesson, _ in (
        lessons.lesson_of_labels(GNMClassifier(), X, labels, None),
        lessons.lesson_of_labels(GNMRegressor(), X, X[:, 0], None),
        lessons.lesson_of_labels(GNMClassifier(), X, labels, np.arange(len(X)) % 4 > 0),
        lessons.lesson_of_teacher(teacher, X, labels, None, None, None, rng),
        lessons.lesson_of_teacher(teacher, X, None, None, None, None, rng),
        lessons.lesson_of_teacher(numbers, X, None, None, None, None, rng),
    ):
        own = rows if lesson.n_real == len(rows) else rows[np.arange(len(X)) % 4 > 0]
        first, second, third = _held_out(lesson, own)
        assert not first & second and not second & third and not first & third
        assert sorted(first | second | third) == list(range(140))
    ignored = np.column_stack([X, np.arange(len(X))])
    lesson, _ = lessons.lesson_of_labels(GNMClassifier(column_kinds={3: "ignore"}), ignored, labels, None)
    assert sum(map(len, _held_out(lesson, rows))) == 140
    with pytest.raises(ValueError, match=r"X has 140 different rows, too few for n_folds=141.*n_folds=140"):
        GNMClassifier().fit_sparse(X, labels, n_folds=141)


def test_folds_of_distinct_rows_are_stratified() -> None:
    X, _, rows = _with_copies()
    labels = (rows < 21).astype(int)
    lesson, _ = lessons.lesson_of_labels(GNMClassifier(), X, labels, None)
    assert [len([row for row in held_out if row < 21]) for held_out in _held_out(lesson, rows)] == [7, 7, 7]


def test_copies_of_rows_do_not_make_a_loss_more_certain() -> None:
    X, _, rows = _with_copies()
    errors = []
    for chosen in (np.unique(rows, return_index=True)[1], slice(None)):
        lesson, _ = lessons.lesson_of_labels(GNMRegressor(), X[chosen], X[chosen, 0], None)
        point = PathPoint(None, [small_machines._network_without_edges(lesson, PathSettings())] * 4)
        [own] = small_machines._judged([point], lesson, small_machines._folds(lesson, 3, np.random.RandomState(0)))
        errors.append(own["loss_se"])
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


@pytest.mark.parametrize("quantile", [0.9, [0.1, 0.9]])
def test_quantiles_are_learned_from_targets_when_a_model_is_distilled(quantile: Any) -> None:
    model = gnmr(loss="quantile", quantile=quantile, n_nodes=40).fit(FRAME, NUMBERS)
    with pytest.raises(ValueError, match=r"learns from targets.*call distill\(X, y\)"):
        model.distill(FRAME, n_edges=20, **QUICK)
    lesson, _ = lessons.lesson_of_teacher(model, FRAME, NUMBERS, None, None, None, np.random.RandomState(0))
    assert lesson.loss == model.fitted_.targets.loss and len(lesson.table.x) == len(FRAME)
    assert (lesson.table.y == lesson.targets.tensor(NUMBERS.to_numpy(), torch.float32)).all()
    with pytest.warns(UserWarning, match="n_augmented=10 is not used"):
        small = model.distill(FRAME, NUMBERS, n_edges=20, n_augmented=10, **QUICK)
    assert small_machines.score_name(small) == "D²"
    [chosen] = [own for own in small._path if own["chosen"]]
    assert chosen["score"] == pytest.approx(small.score(FRAME, NUMBERS), abs=0.2)


def test_a_description_names_columns_that_cannot_be_used() -> None:
    table = FRAME[["b"]].assign(same=1, empty=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        described = GNMRegressor().fit_sparse(table, NUMBERS, n_edges=20, **QUICK).describe()
        constant = GNMRegressor().fit_sparse(table[["same", "empty"]], NUMBERS, **QUICK).describe()
    assert described.endswith("Columns that are constant or ignored: same, empty.")
    assert "nothing" not in constant and constant.endswith("Columns that are constant or ignored: same, empty.")


def test_no_tolerance_returns_the_best_machine() -> None:
    path = GNMRegressor().fit_sparse(FRAME, NUMBERS, tolerance=0, **QUICK).sparsity_path_
    assert path["loss"].min() == path.loc[path["chosen"], "loss"].item()


def test_the_same_seed_gives_the_same_machine() -> None:
    one, two = (GNMRegressor().fit_sparse(FRAME, NUMBERS, n_edges=20, **QUICK) for _ in range(2))
    assert one.machine_ == two.machine_


def test_a_saved_machine_is_the_same() -> None:
    small = GNMClassifier().fit_sparse(FRAME, LABELS, n_edges=20, **QUICK)
    stored = io.BytesIO()
    small.save(stored)
    loaded = tabgnm.load(io.BytesIO(stored.getvalue()))
    assert loaded.machine_ == small.machine_
    assert (loaded.predict_proba(FRAME) == small.predict_proba(FRAME)).all()


def test_a_category_of_many_levels_has_inputs_for_the_frequent_ones() -> None:
    frame = FRAME.assign(city=[f"town {place % 40}" for place in range(len(FRAME))])
    small = GNMRegressor().fit_sparse(frame, NUMBERS, n_edges=30, **QUICK)
    names = [name for name in small.machine_.input_names if name.startswith("city")]
    assert len(names) == 12
    assert small.fitted_.groups[0].shape.embedding is None


def test_packs_say_how_to_get_a_machine() -> None:
    x, y = make_friedman1(100, random_state=0)
    pack = GNMRegressor(n_candidates=1, n_folds=2, max_epochs=1, patience=None).fit(x, y)
    for ask in (lambda: pack.machine_, pack.describe, pack.edges, pack.equations):
        with pytest.raises(NoSingleMachine, match=r"has 2 networks.*call distill\(X\)"):
            ask()
    with pytest.raises(ExportError, match=r"has 2 networks.*call distill\(X\)"):
        pack.export("model.c")
    with pytest.raises(AttributeError, match="not returned by distill or fit_sparse"):
        _ = pack.sparsity_path_


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_edges": 0}, "n_edges=0 is too small"),
        ({"tolerance": -1.0}, "tolerance=-1"),
        ({"penalty": "l7"}, "penalty='l7' is not known"),
        ({"n_folds": 1}, "n_folds=1 is too small"),
        ({"n_hidden": -1}, "n_hidden=-1 is too small"),
        ({"activation": "sine"}, "activation='sine' is not known"),
        ({"n_edges": 10, "tolerance": 0.1}, "n_edges=10 and tolerance=0.1 cannot both be given"),
    ],
)
def test_what_makes_no_sense_is_refused_before_training(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GNMRegressor().fit_sparse(FRAME, NUMBERS, **(QUICK | wrong))


def test_multilayer_perceptrons_have_no_graph_to_learn_and_errors_do_not_advise_it() -> None:
    instead = r"use GNMRegressor\(\).fit_sparse\(X, y\), or GNMRegressor\(\).fit\(X, y\).distill\(X\)"
    with pytest.raises(TypeError, match=instead):
        MLPRegressor().fit_sparse(FRAME, NUMBERS, **QUICK)
    pack = MLPRegressor(n_candidates=1, n_folds=2, max_epochs=1, patience=None).fit(FRAME, NUMBERS)
    for ask in (
        pack.describe,
        lambda: pack.export("model.c"),
        lambda: pack.export("model.py", max_megabytes=1e-3),
        lambda: machine_html(pack),
    ):
        with pytest.raises(ValueError, match=instead) as raised:
            ask()
        assert "call distill" not in str(raised.value)


def test_a_network_with_gates_is_no_machine_and_says_so() -> None:
    gated = GNMRegressor(combine="gated", numeric_embedding=None, n_candidates=1, n_folds=0, max_epochs=1)
    gated.fit(FRAME, NUMBERS)
    assert not hasattr(gated, "machine_")
    with pytest.raises(NoSingleMachine, match=r"combine='gated'.*use combine='none'.*distill\(X\)"):
        gated.equations()
    with pytest.raises(ExportError, match="combine='gated'"):
        gated.export("model.c")


def test_rows_that_are_mixed_from_held_out_ones_are_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = GNMRegressor(n_candidates=1, n_folds=2, max_epochs=1, random_state=0).fit(FRAME, NUMBERS)
    lesson, _ = lessons.lesson_of_teacher(teacher, FRAME, NUMBERS, None, None, 300, np.random.RandomState(0))
    seen: list[list[torch.Tensor]] = []

    def recorded(*arguments: Any, **options: Any) -> Any:
        seen.append(arguments[3])
        return learn_path(*arguments, **options)

    monkeypatch.setattr(small_machines, "learn_path", recorded)
    teacher.distill(FRAME, NUMBERS, n_edges=5, n_augmented=300, **QUICK)
    [(first, second, everything)] = seen
    assert len(everything) == len(lesson.source) == len(FRAME) + 300
    trained = [set(lesson.source[rows].tolist()) for rows in (first, second)]
    assert not trained[0] & trained[1] and len(trained[0] | trained[1]) == len(FRAME)


def test_of_several_starts_the_machine_with_the_lowest_training_loss_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[Any] = []

    def recorded(*arguments: Any, **options: Any) -> Any:
        learned.extend(learn_path(*arguments, **options))
        return list(learned)

    monkeypatch.setattr(small_machines, "learn_path", recorded)
    small = GNMRegressor().fit_sparse(FRAME, NUMBERS, **{**QUICK, "n_starts": 3})
    rows, y = torch.as_tensor(small.encode(FRAME)), small.fitted_.targets.tensor(NUMBERS.to_numpy(), torch.float32)
    assert len(small._path_fitted) == len(learned)
    for fitted, point in zip(small._path_fitted, learned, strict=True):
        *_, first, second, third = point.networks
        with torch.inference_mode():
            losses = [float((network(rows) - y).square().mean()) for network in (first, second, third)]
        kept = fitted.groups[0].parameters
        [loss, *_] = [
            loss
            for network, loss in zip((first, second, third), losses, strict=True)
            if all((kept[name][0] == value).all() for name, value in network.named_parameters())
        ]
        assert loss <= min(losses) * (1 + 1e-4)  # equal losses may be rounded differently
    with pytest.raises(ValueError, match="n_starts=0"):
        GNMRegressor().fit_sparse(FRAME, NUMBERS, n_starts=0)


@pytest.fixture
def hardly_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """For claims that do not depend on weights."""
    monkeypatch.setattr("tabgnm.sparsity.path.N_STEPS", 20)


@pytest.mark.parametrize("wrong", [{"scaling": "bogus"}, {"n_jobs": 0}, {"loss": "bogus"}, {"random_state": "x"}])
def test_parameters_are_validated_before_the_table_is_read(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        GNMRegressor(**wrong).fit_sparse(object(), object())
    teacher = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1).fit(FRAME, NUMBERS).set_params(**wrong)
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        teacher.distill(object())


@pytest.mark.usefixtures("hardly_trained")
def test_one_warning_names_all_parameters_that_were_set_and_are_not_used() -> None:
    model = GNMClassifier(scaling="robust", n_layers=4, effort="best", class_weight="balanced", n_jobs=1)
    with pytest.warns(UserWarning, match="fit_sparse does not use") as warned:
        model.fit_sparse(FRAME, LABELS, n_edges=20, **QUICK)
    [message] = [str(own.message) for own in warned]
    assert "effort='best', n_layers=4, scaling='robust'; pass n_layers to fit_sparse instead" in message
    assert "class_weight" not in message and "n_jobs" not in message
    assert warned[0].filename == __file__


@pytest.mark.usefixtures("hardly_trained")
@pytest.mark.parametrize(
    "model",
    [
        GNMRegressor(),
        GNMRegressor.paper(),
        GNMRegressor.paper(loss="huber", huber_delta=0.5, column_kinds={"a": "ignore"}),
        GNMRegressor(scaling="standard", numeric_embedding=None, target_transform="none", device="cpu"),
    ],
)
def test_presets_and_what_small_machines_are_anyway_need_no_warning(model: GNMRegressor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = model.fit_sparse(FRAME, NUMBERS, n_edges=20, **QUICK)
        small.fit_sparse(FRAME, NUMBERS, n_edges=20, **QUICK)


@pytest.mark.usefixtures("hardly_trained")
def test_distilling_does_not_warn_about_parameters_that_the_teacher_was_fitted_with() -> None:
    teacher = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1, scaling="robust").fit(FRAME, NUMBERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = teacher.distill(FRAME, n_edges=20, **QUICK)
    assert small.scaling == "standard", "the parameters of a small machine say what it is"


def test_targets_that_a_loss_cannot_learn_are_refused() -> None:
    with pytest.raises(ValueError, match="loss='poisson' expects numbers >= 0"):
        GNMRegressor(loss="poisson").fit_sparse(FRAME, NUMBERS, **QUICK)


@pytest.mark.usefixtures("hardly_trained")
def test_scores_against_predictions_of_the_teacher_are_named_so_also_in_files_and_pages() -> None:
    teacher = GNMClassifier(n_candidates=1, n_folds=0, max_epochs=1, random_state=0).fit(FRAME, LABELS)
    unlabelled, labelled = (teacher.distill(FRAME, y, n_edges=20, **QUICK) for y in (None, LABELS))
    assert set(unlabelled.sparsity_path_["judged_by"]) == {"model"}
    assert set(labelled.sparsity_path_["judged_by"]) == {"target"}
    stored = io.BytesIO()
    unlabelled.save(stored)
    loaded = tabgnm.load(io.BytesIO(stored.getvalue()))
    for small in (unlabelled, loaded, loaded.resized(20)):
        assert small_machines.score_name(small) == "accuracy against the model's predictions"
        data = machine_data(small)
        assert data is not None and data["score_name"] == "accuracy against the model's predictions"
    assert small_machines.score_name(labelled) == "accuracy"


@pytest.mark.usefixtures("hardly_trained")
def test_a_size_that_leaves_only_a_constant_causes_a_warning_that_names_a_larger_one() -> None:
    with pytest.warns(UserWarning, match="n_edges=1 is too small to use a column") as warned:
        small = GNMRegressor().fit_sparse(FRAME, NUMBERS, n_edges=1, **QUICK)
    path = small.sparsity_path_
    enough = path["edges"][path["columns"] > 0].min()
    [message] = warned
    assert str(message.message).endswith(f"use n_edges>={enough} for a larger one") and message.filename == __file__
    assert "constant" in small.describe()
    assert small.resized(enough).machine_.used_inputs
    with pytest.warns(UserWarning, match=f"n_edges>={enough}") as warned:
        small.resized(1)
    assert warned[0].filename == __file__


def test_a_constant_that_is_chosen_for_its_loss_is_explained() -> None:
    path = [{"edges": 9, "columns": 2}, {"edges": 4, "columns": 1}, {"edges": 1, "columns": 0}]
    with pytest.warns(UserWarning, match=r"not have a clearly lower loss.*n_edges>=4 for"):
        small_machines.warn_if_constant(path, 2, None, stacklevel=1)
    with pytest.warns(UserWarning, match=r"not have a clearly lower loss.*n_edges>=6 for"):
        small_machines.warn_if_constant(path, 2, 5, stacklevel=1)
    small_machines.warn_if_constant(path, 1, None, stacklevel=1)
    small_machines.warn_if_constant(path[2:], 0, None, stacklevel=1)  # no column is used by any


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (GNMRegressor(), np.full(200, 7.5)),
        (GNMRegressor(loss="poisson"), np.full(200, 3.0)),
        (GNMRegressor(loss="quantile", quantile=[0.1, 0.9]), np.full(200, 7.5)),
        (GNMRegressor(), np.full((200, 2), [7.5, -1.0])),
        (GNMClassifier(), np.full(200, "only")),
    ],
    ids=["number", "count", "quantiles", "two numbers", "class"],
)
def test_a_constant_target_is_a_machine_without_edges_everywhere(model: Any, y: np.ndarray) -> None:
    with pytest.warns(UserWarning, match="the machine is a constant, because the target has only one value") as warned:
        small = model.fit_sparse(FRAME, y, **QUICK)
    assert [own.filename for own in warned] == [__file__]
    assert small.machine_.n_edges == 0 and len(small.edges()) == 0 and "weight" in small.edges()
    assert "0 edges and 0 biases" in small.describe()
    [row] = small.sparsity_path_.to_dict("records")
    assert (row["edges"], row["columns"], row["loss"], row["score"]) == (0, 0, 0, 1)
    assert not program_of(small).columns
    assert (small.predict(FRAME).T == y.T).all()
    assert machine_html(small)


def test_the_network_of_a_constant_target_is_a_machine_without_edges() -> None:
    settings = {"numeric_embedding": None, "n_candidates": 1, "n_folds": 0, "max_epochs": 1}
    model = GNMRegressor(**settings).fit(FRAME[["b", "noise"]], np.full(200, 7.5))
    assert model.machine_.n_edges == 0
    assert model.equations().startswith("y = 7.5\n")


def test_of_several_targets_the_constant_ones_have_no_edges() -> None:
    small = GNMRegressor().fit_sparse(FRAME, np.column_stack([np.full(200, 7.5), NUMBERS]), **QUICK)
    assert set(small.edges()["target"]) >= {"y1"} and "y0" not in set(small.edges()["target"])
    assert small.machine_.n_edges == next(own["edges"] for own in small._path if own["chosen"])
    np.testing.assert_allclose(small.machine_.run(small.fitted_.encoders[0].encode(read_table(FRAME)))[:, 0], 0)


def test_rounding_errors_of_training_are_not_edges() -> None:
    frame = FRAME[["b", "noise", "more noise"]]
    small = GNMRegressor().fit_sparse(frame, 2 * frame["b"] + 1, n_layers=1, n_folds=2, random_state=0)
    assert list(small.edges()["source"]) == ["b"]
    assert small.describe().endswith("It does not use: noise, more noise.")
    assert list(small.sparsity_path_["edges"]) == [1]


@pytest.mark.parametrize(
    ("n_rows", "n_folds", "message"),
    [(4, 5, r"X has 4 rows.*n_folds=5.*use more rows, or n_folds=4"), (1, 2, r"X has 1 row, .*use at least 2 rows")],
)
def test_too_few_rows_are_refused_with_a_remedy(n_rows: int, n_folds: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GNMRegressor().fit_sparse(FRAME[["a", "b"]][:n_rows], NUMBERS[:n_rows], n_folds=n_folds)


@pytest.mark.usefixtures("hardly_trained")
def test_a_linear_function_of_few_columns_is_a_path_of_one_size() -> None:
    small = GNMRegressor().fit_sparse(FRAME[["b"]][:4], NUMBERS[:4], n_layers=1, n_folds=2, random_state=0)
    assert list(small.sparsity_path_["edges"]) == [2]


@pytest.mark.usefixtures("hardly_trained")
def test_rows_without_weight_do_not_count() -> None:
    weights = np.r_[np.ones(30), np.zeros(len(FRAME) - 30)]
    some = GNMClassifier().fit_sparse(FRAME, LABELS, weights, n_edges=20, **QUICK)
    assert some.machine_ == GNMClassifier().fit_sparse(FRAME[:30], LABELS[:30], n_edges=20, **QUICK).machine_
    with pytest.raises(ValueError, match="X has 1 row of positive weight"):
        GNMClassifier().fit_sparse(FRAME, LABELS, np.eye(len(FRAME))[0], **QUICK)


@pytest.mark.usefixtures("hardly_trained")
def test_fitting_a_small_machine_warns_that_the_result_is_dense() -> None:
    small = GNMRegressor().fit_sparse(FRAME, NUMBERS, n_edges=20, **QUICK).set_params(max_epochs=1)
    with pytest.warns(UserWarning, match=r"dense network.*call fit_sparse\(X, y\)"):
        small.fit(FRAME, NUMBERS)
    small.fit(FRAME, NUMBERS)  # it no longer is a small machine
