"""Cells of text files: their types are decided once, and a model gets the same cells from any part of a file."""

from __future__ import annotations

import csv
import io
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tabgnm import MLPClassifier
from tabgnm.cli.tablefiles import open_table, read_table
from tabgnm.table import TableEncoder, TableError, TableSettings
from tabgnm.table import read_table as raw_table
from tabgnm.table.text import MISSING_TEXTS, says_nothing


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def as_csv(rows: list[list[str]], delimiter: str = ",", quoting: Any = csv.QUOTE_MINIMAL) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, quoting=quoting).writerows(rows)  # ends lines with \r\n, and quotes both
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2", "-3", "0"], [1, 2, -3, 0]),
        (["1", "NA", "3"], [1.0, np.nan, 3.0]),
        (["1.5", "2", ".5", "1e3", "-0.25", "5."], [1.5, 2.0, 0.5, 1000.0, -0.25, 5.0]),
        ([" 1.5", "2 "], [1.5, 2.0]),
        (["123456789012345678901234567890", "1"], [1.2345678901234568e29, 1.0]),
        (["9007199254740993", "1"], [9007199254740993, 1]),
        (["01234", "1234"], ["01234", "1234"]),
        (["1", "-01"], ["1", "-01"]),
        (["00.5", "1"], ["00.5", "1"]),
        (["true", "FALSE", "True"], [True, False, True]),
        (["true", "?", "false"], [True, None, False]),
        (["true", "no"], ["true", "no"]),
        (["1,234.5", "2"], ["1,234.5", "2"]),
        (["inf", "1"], ["inf", "1"]),
        (["infinity", "-inf"], ["infinity", "-inf"]),
        (["1_000", "2"], ["1_000", "2"]),
        (["0x10", "2"], ["0x10", "2"]),
        (["2024-01-31", "2024-02-01"], ["2024-01-31", "2024-02-01"]),
        ([" red", "red "], [" red", "red "]),
        (["nan", "nano"], [None, "nano"]),
        (["-", "-5"], [np.nan, -5.0]),
        (["\N{NO-BREAK SPACE}NA\N{NO-BREAK SPACE}", "x"], [None, "x"]),
    ],
)
def test_the_type_of_a_column_is_decided_from_all_cells(cells: list[str], expected: list[Any], tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", as_csv([["name", "other"], *([cell, "x"] for cell in cells)]))
    column = read_table(path)["name"]
    assert column.isna().tolist() == pd.Series(expected).isna().tolist()
    assert column.dropna().tolist() == [cell for cell in expected if not pd.isna(cell)]
    assert {type(cell) for cell in column.dropna()} == {type(cell) for cell in expected if not pd.isna(cell)}


@pytest.mark.parametrize(
    "text", [*sorted(MISSING_TEXTS), *map(str.upper, sorted(MISSING_TEXTS)), " na ", "Null", "None ", "nothing"]
)
def test_text_is_missing_where_pandas_says_so_and_a_number_where_a_table_does(text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", as_csv([["town", "size"], ["Bern", "1"], [text, text]]))
    missing = pd.read_csv(path, skipinitialspace=True)["town"].isna().tolist()
    if text == "None ":  # spaces after a cell mean nothing either
        missing = [False, True]
    frame = read_table(path)
    assert frame["town"].isna().tolist() == missing
    assert frame["size"].isna().tolist() == [False, says_nothing(text)]
    assert (frame["size"][0] == 1) == says_nothing(text)
    with open_table(path) as reader:
        assert next(iter(reader))["town"].isna().tolist() == missing


IN_TEXT = {"", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
    st.sampled_from([*sorted(MISSING_TEXTS), '"', '""', ",", "\n", "\r\n", "a,b", 'say "no"', " x ", "007", "1.50"]),
)


@given(
    st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=1, max_size=8)),
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(1, 9),
)
@settings(max_examples=60)
def test_cells_are_those_that_were_written(rows: list[list[str]], delimiter: str, quoting: Any, size: int) -> None:
    later = [cell for row in rows for cell in row[1:] if cell]
    assume(not later or not all(cell.startswith(" ") for cell in later))  # spaces that follow each delimiter
    names = [f"column {place}" for place in range(len(rows[0]))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(as_csv([names, *rows], delimiter, quoting).encode())
        with open_table(path, delimiter=delimiter, chunk_rows=size) as reader:
            found = pd.concat(list(reader), ignore_index=True)
    assert list(found.columns) == names
    expected = [[None if cell.strip() in IN_TEXT else cell for cell in row] for row in rows]
    assert found.astype(object).where(found.notna(), None).to_numpy().tolist() == expected


SPACED = "age, work, income\n39, State-gov, <=50K\n50, ?, >50K\n31,, >50K\n"


def test_spaces_that_follow_each_delimiter_are_not_part_of_the_cells(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path / "a.csv", SPACED))
    assert frame["age"].tolist() == [39, 50, 31]
    assert frame["work"].isna().tolist() == [False, False, True]
    assert frame["work"].tolist()[:2] == ["State-gov", "?"]
    assert frame["income"].tolist() == ["<=50K", ">50K", ">50K"]
    without_names = read_table(written(tmp_path / "b.csv", SPACED.split("\n", 1)[1]), header=False)
    assert without_names["x2"].tolist() == ["<=50K", ">50K", ">50K"]
    kept = read_table(written(tmp_path / "c.csv", SPACED + "7,far, >50K\n"))
    assert kept["income"][0] == " <=50K"
    assert read_table(tmp_path / "c.csv", strip=True)["income"][0] == "<=50K"
    assert read_table(tmp_path / "a.csv", strip=False)["income"][0] == " <=50K"


NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e6, 1e6).map(repr),
    st.sampled_from(["0.50", "3.0", "1e-3", "", "NA", "?", " 7 "]),
)
LEVELS = st.sampled_from(["1", "1.0", "3.0", "3", "true", "007", "red", "", "none", "2024-01-31"])
WORDS = st.sampled_from(["true", "false", "", "True"])
ROWS = st.lists(st.tuples(NUMBERS, LEVELS, WORDS, LEVELS), min_size=2, max_size=12)
COLUMNS = ["number", "level", "word", "other"]


def encoded(encoder: TableEncoder, frames: Any) -> Any:
    return np.concatenate([encoder.encode(raw_table(frame)) for frame in frames])


@given(ROWS, ROWS, st.integers(1, 7))
@settings(max_examples=30)
def test_rows_are_the_same_to_a_model_whole_in_chunks_and_alone(known: Any, rows: Any, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, whole = Path(folder) / "fitted.csv", Path(folder) / "whole.csv"
        fitted.write_text(as_csv([COLUMNS, *known]))
        whole.write_text(as_csv([COLUMNS, *rows]))
        encoder = TableEncoder(TableSettings()).fit(raw_table(read_table(fitted)))
        try:
            with open_table(whole) as reader:
                expected = encoded(encoder, reader)
        except TableError:  # what was boolean or a number has other text now
            assume(False)
        with open_table(whole, chunk_rows=size) as reader:
            assert (encoded(encoder, reader) == expected).all()
        assert (encoded(encoder, [read_table(whole, text=COLUMNS)]) == expected).all()
        for place, row in enumerate(rows):
            alone = Path(folder) / "alone.csv"
            alone.write_text(as_csv([COLUMNS, row]))
            with open_table(alone) as reader:
                assert (encoded(encoder, reader) == expected[place]).all()


def test_the_rows_of_the_fit_are_encoded_as_in_the_fit(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": generator.normal(size=60).round(3),
            "count": generator.integers(0, 50, 60),
            "zip": [f"{code:05d}" for code in generator.integers(0, 9, 60)],
            "member": generator.choice(["true", "false"], 60),
            "town": generator.choice(["Bern", "Chur", "NA"], 60),
            "day": [f"2024-01-{1 + day % 28:02d}" for day in range(60)],
        }
    )
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = raw_table(read_table(path))
        encoder = TableEncoder(TableSettings()).fit(whole)
    kinds = [info.kind for info in encoder.columns]
    assert kinds == ["number", "number", "category", "boolean", "category", "datetime"]
    with open_table(path, chunk_rows=7) as reader:
        assert (encoded(encoder, reader) == encoder.encode(whole)).all()


def test_ordinary_columns_are_fitted_without_warnings_and_predicted_alike(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = [
        [f"{x:.3f}", str(n), town, f"{n % 3:05d}", str(x > 0).lower()]
        for x, n, town in zip(
            generator.normal(size=80), generator.integers(0, 9, 80), ["Bern", "Chur", ""] * 27, strict=False
        )
    ]
    names = ["x", "count", "town", "code", "positive"]
    path = written(tmp_path / "a.csv", as_csv([names, *rows]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
        warnings.filterwarnings("ignore", message="training")
        frame = read_table(path)
        model = MLPClassifier(n_candidates=1, n_folds=1, max_epochs=3, random_state=0)
        model.fit(frame.drop(columns="positive"), frame["positive"])
        with open_table(path) as reader:
            whole = np.concatenate([model.predict_proba(chunk[names[:-1]]) for chunk in reader])
        with open_table(path, chunk_rows=1) as reader:
            alone = np.concatenate([model.predict_proba(chunk[names[:-1]]) for chunk in reader])
    np.testing.assert_allclose(alone, whole, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(frame[names[:-1]]), whole, atol=1e-6)


# What is fine


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"a,b\n1,x\n2,y\n", {}),
        (b"a,b\r\n1,x\r\n2,y\r\n", {}),
        (b"a,b\r1,x\r2,y", {}),
        (b"\xef\xbb\xbfa,b\n1,x\n2,y\n", {}),
        ("a,b\n1,x\n2,y\n".encode("utf-16"), {}),
        ("a,b\n1,x\n2,y\n".encode("utf-16-le"), {"encoding": "utf-16-le"}),
        ("a,b\n1,x\n2,y\n".encode("utf-32"), {}),
        (b"\n\na,b\n\n1,x\n\n2,y\n\n", {}),
        (b"a;b\n1;x\n2;y\n", {}),
        (b"a\tb\n1\tx\n2\ty\n", {}),
        (b"a|b\n1|x\n2|y\n", {}),
        (b"a:b\n1:x\n2:y\n", {"delimiter": ":"}),
        (b"a\tb\n1\tx\n2\ty\n", {"delimiter": "\\t"}),
        (b'"a","b"\n"1","x"\n"2","y"\n', {}),
        (b" a , b\n1,x\n2,y\n", {}),
        (b"a,b,\n1,x,\n2,y,\n", {}),
        (b'{"a": 1, "b": "x"}\n{"b": "y", "a": 2}\n', {"format": "jsonl"}),
    ],
)
def test_variants_of_a_table_are_the_same_table(content: bytes, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    expected = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    pd.testing.assert_frame_equal(read_table(path, **options), expected)
    with open_table(path, **options) as reader:
        assert reader.columns == ["a", "b"]
        assert sum(map(len, reader)) == 2


@pytest.mark.parametrize("first", ["0,1,2", "2019,2020,2021", "town,2019,2024"])
def test_names_that_are_ascending_whole_numbers_are_names(first: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", f"{first}\n5,1,4\n")
    assert list(read_table(path).columns) == first.split(",")


def test_a_table_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "5.1,setosa\n4.9,virginica\n")
    frame = read_table(path, header=False)
    assert frame.to_dict("list") == {"x0": [5.1, 4.9], "x1": ["setosa", "virginica"]}


def test_a_last_column_of_missing_cells_is_a_column(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "5.1,\n" * 60 + "4.9,7\n")
    assert read_table(path, header=False)["x1"].notna().sum() == 1
    path = written(tmp_path / "b.csv", "a,b\n" + "5.1,\n" * 60)
    assert read_table(path)["b"].isna().all()


def test_decimal_commas_do_not_hide_the_semicolons(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "price;size\n1,5;2,5\n3,5;4,5\n")
    assert list(read_table(path).columns) == ["price", "size"]


def test_commas_in_the_text_of_a_tsv_file_are_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a,b\tc,d,e\n1,2\t3,4,5\n")
    assert list(read_table(path).columns) == ["a,b", "c,d,e"]


def test_a_single_column_needs_no_delimiter(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "full name\nAda Lovelace\nAlan Turing\n")
    assert read_table(path)["full name"].tolist() == ["Ada Lovelace", "Alan Turing"]


def test_a_quote_within_a_cell_is_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'size,b\n5" pipe,1\n6" pipe,"2\n3"\n')
    assert read_table(path).to_dict("list") == {"size": ['5" pipe', '6" pipe'], "b": ["1", "2\n3"]}


def test_a_header_longer_than_a_piece_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.cli.tablefiles.text_lines.PIECE_BYTES", 100)
    for n_chars in (200, 201):
        path = written(tmp_path / "a.csv", f"{'é' * n_chars},b\n1,2\n")
        assert read_table(path).columns.tolist() == ["é" * n_chars, "b"]


def test_thousands_of_columns_are_read(tmp_path: Path) -> None:
    names = [f"column {place}" for place in range(5000)]
    path = written(tmp_path / "a.csv", as_csv([names, ["1"] * 5000, ["2.5"] * 5000]))
    frame = read_table(path)
    assert frame.shape == (2, 5000) and (frame.dtypes == np.float64).all()


def test_a_cell_of_a_megabyte_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", as_csv([["a", "b"], ["x" * 2**20, 'line\n"' * 2**18], ["1", "2"]]))
    assert read_table(path).map(len).to_numpy().tolist() == [[2**20, 6 * 2**18], [1, 1]]


def test_pieces_are_cut_between_rows_and_not_in_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[str(row), f'cell "{row}"\n\nof, {row % 7} lines' if row % 3 else 'a"b'] for row in range(200)]
    path = written(tmp_path / "a.csv", as_csv([["a", "b"], *rows]))
    monkeypatch.setattr("tabgnm.cli.tablefiles.text_lines.PIECE_BYTES", 100)
    with open_table(path) as reader:
        frames = list(reader)
    assert len(frames) > 10
    assert pd.concat(frames).to_numpy().tolist() == rows


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "feather", "sqlite"])
def test_standard_input_is_read_in_every_format(
    kind: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tabgnm.cli.tablefiles import open_writer

    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
    path = tmp_path / f"a.{kind}{'.gz' if packed else ''}"
    with open_writer(path, ["a", "b"]) as writer:
        writer.write(frame)
    options = {} if kind == "csv" else {"format": kind}
    with path.open("rb") as content, io.TextIOWrapper(content) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        pd.testing.assert_frame_equal(read_table("-", **options), frame)
        content.seek(0)
        with open_table("-", chunk_rows=2, **options) as reader:
            assert reader.columns == ["a", "b"]
            assert [len(chunk) for chunk in reader] == [2, 1]


def test_large_whole_numbers_beside_missing_cells_stay_exact(tmp_path: Path) -> None:
    for name, frame in (
        ("a.parquet", pd.DataFrame({"id": pd.array([2**60 + 1, None], dtype="Int64")})),
        ("a.jsonl", pd.DataFrame({"id": pd.array([2**60 + 1, None], dtype="Int64")})),
    ):
        path = tmp_path / name
        if name.endswith("parquet"):
            frame.to_parquet(path)
        else:
            path.write_text(f'{{"id": {2**60 + 1}}}\n{{"id": null}}\n')
        assert read_table(path)["id"].tolist()[0] == 2**60 + 1


def test_the_index_of_a_frame_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=[5, 7, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").columns.tolist() == ["a"]


def test_a_table_of_a_database_is_chosen_by_name(tmp_path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE homes (a)")
    connection.execute('CREATE TABLE "our ""people""" (b, c)')
    connection.execute('INSERT INTO "our ""people""" VALUES (1, NULL), (2.5, 3)')
    connection.commit()
    connection.close()
    frame = read_table(tmp_path / "a.db", table='our "people"')
    np.testing.assert_array_equal(frame.to_numpy(), [[1, np.nan], [2.5, 3]])
