import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tabgnm
from tabgnm.cli import app

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()


def one_line(text: str) -> str:
    """Undo the wrapping and the frame of an error panel."""
    return " ".join(text.replace("│", " ").split())


def test_version_is_shown(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"tabgnm {tabgnm.__version__}\n")


def test_the_comparison_prints_a_table_and_writes_a_png(runner: CliRunner, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    result = runner.invoke(app, ["demo", "--compare", "--output", str(picture), "--epochs", "2"])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(PNG_SIGNATURE)
    for text in ("Moons", "Breast cancer", "GNM", "MLP", "Effective", "Accuracy", str(picture)):
        assert text in result.output


def test_the_comparison_is_of_networks_with_as_many_weights_that_matter() -> None:
    from tabgnm.cli.demo_comparison import evaluate, load_problems

    for problem in load_problems(seed=0):
        gnm, mlp = (evaluate(model, problem, 0, 1, after_epoch=lambda: None) for model in ("GNM", "MLP"))
        assert gnm.net.n_effective_parameters() == pytest.approx(mlp.net.n_effective_parameters(), rel=0.05)


def test_the_same_seed_gives_the_same_losses() -> None:
    from tabgnm.cli.demo_comparison import evaluate, load_problems

    first, again = (evaluate("GNM", load_problems(seed=1)[0], 1, 2, after_epoch=lambda: None).losses for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("absent/picture.png", "absent does not exist; create it first, or choose another one"),
        ("picture.gif", "picture.gif does not end in .png"),
        ("folder.png", "is a folder; give the name of a file in it"),
    ],
)
def test_a_bad_output_path_is_refused_before_the_training(
    name: str, complaint: str, runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    result = runner.invoke(app, ["demo", "--compare", "--output", name])
    assert result.exit_code == 2
    assert complaint in one_line(result.output)


def test_without_matplotlib_the_comparison_says_what_to_install(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what Python takes for "not installed"
    result = runner.invoke(app, ["demo", "--compare", "--output", str(tmp_path / "picture.png")])
    assert result.exit_code == 1
    assert 'pip install "tabgnm[plot]"' in result.output
