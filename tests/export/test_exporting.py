from pathlib import Path

import numpy as np
import onnx
import pytest
from sklearn.exceptions import NotFittedError

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.export import ExportError, onnx_model, python_file
from tabgnm.export.small import is_small
from tests.export.examples import PLAIN, later, mixed, small, sparse
from tests.export.onnx_runs import run
from tests.export.python_runs import loaded
from tests.modelfile.examples import fitted, numbers, target


def test_the_suffix_of_a_file_says_the_format(tmp_path: Path) -> None:
    estimator = fitted("calibrated")
    estimator.export(tmp_path / "model.onnx")
    estimator.export(str(tmp_path / "model.PY"), max_megabytes=1)
    assert (tmp_path / "model.onnx").read_bytes() == onnx_model(estimator)
    assert (tmp_path / "model.PY").read_text(encoding="utf-8") == python_file(estimator)


def test_options_reach_the_format(tmp_path: Path) -> None:
    fitted("calibrated").export(tmp_path / "model.onnx", matrix=False)
    assert len(onnx.load(tmp_path / "model.onnx").graph.input) == 3


def test_an_unknown_format_or_option_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match=r"the format of '.*model.exe' is not known; use a file name that ends in .onnx"
    ):
        fitted("calibrated").export(tmp_path / "model.exe")
    with pytest.raises(TypeError, match=r"'matrx' is not an option of exports to .onnx; use matrix, number_type"):
        fitted("calibrated").export(tmp_path / "model.onnx", matrx=True)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_if_the_export_fails(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("before")
    with pytest.raises(ExportError, match="matrix=True"):
        small("two classes").export(path, matrix=True)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"the folder .* does not exist; create it first"):
        fitted("calibrated").export(tmp_path / "nowhere" / "model.py")


def test_a_machine_that_reads_no_column_is_exported() -> None:
    for X in (mixed(), numbers()):
        estimator = sparse(GNMRegressor(**PLAIN), X, target(), 1.0)
        [group] = estimator.fitted_.groups
        for name, values in group.parameters.items():
            values.mul_(not name.startswith("weight"))
        assert not estimator.machine_.used_inputs
        expected = estimator.predict(X)
        np.testing.assert_allclose(run(onnx_model(estimator), X)["variable"][:, 0], expected, rtol=1e-6)
        module = loaded(python_file(estimator))
        np.testing.assert_allclose(module.predict([{}] * len(X)), expected, rtol=1e-6)
        assert module.predict_row({}) == pytest.approx(expected[0], rel=1e-6)


@pytest.mark.slow
def test_a_distilled_machine_is_exported() -> None:
    X = mixed(200)
    y = np.where(X["number"] + (X["colour"] == "red") > 0.5, "yes", "no")
    teacher = GNMClassifier(n_nodes=90, n_candidates=1, n_folds=2, max_epochs=20, random_state=0).fit(X, y)
    estimator = teacher.distill(X, n_edges=50, n_folds=2, n_starts=1, n_augmented=0, random_state=0)
    assert is_small(estimator)
    expected, module = estimator.predict_proba(later()), loaded(python_file(estimator))
    outputs = run(onnx_model(estimator), later())
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(module.predict_proba(later()), expected, rtol=0, atol=1e-6)
    assert outputs["label"].tolist() == module.predict(later()).tolist() == estimator.predict(later()).tolist()


def test_an_estimator_has_to_be_fitted(tmp_path: Path) -> None:
    for export in (onnx_model, python_file, lambda own: own.export(tmp_path / "model.py")):
        with pytest.raises(NotFittedError):
            export(GNMClassifier())


@pytest.mark.parametrize("suffix", ["onnx", "py"])
def test_an_activation_that_exports_do_not_implement_is_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabgnm.export.pack_program.ACTIVATIONS", frozenset(("tanh",)))
    with pytest.raises(ExportError, match=r"exports do not implement activation='\w+'; save a model file instead"):
        fitted("calibrated").export(tmp_path / f"model.{suffix}")
