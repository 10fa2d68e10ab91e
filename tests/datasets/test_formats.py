import numpy as np
import pytest

from tabgnm.datasets import DatasetContentError, formats
from tabgnm.datasets.formats import Arff, Columns, Delimited, Kind, read_columns


def columns_of(text: str, file_format: Delimited | Arff, max_rows: int | None = None, **kinds: Kind) -> Columns:
    return read_columns(text.splitlines(keepends=True), file_format, kinds, where="the file", max_rows=max_rows)


def values(columns: Columns) -> dict[str, list[object]]:
    return {name: ["missing" if cell != cell else cell for cell in column] for name, column in columns.items()}


@pytest.mark.parametrize(
    ("text", "file_format"),
    [
        ("1,red\n2.5,blue\n?,?\n", Delimited(("a", "b"))),
        ("a,b\n1,red\n2.5,blue\n,\n", Delimited()),
        ("a;b\r\n1; red\r\n2.5; blue\r\n?; ?\r\n", Delimited(separator=";")),
        ('"a","b"\n1,"red"\n2.5,"blue"\n?,"?"\n', Delimited()),
        ("1   red\n2.5\tblue\n  ? ?  \n", Delimited(("a", "b"), separator=None)),
        ("|a comment\n1, red\n\n2.5, blue\n?, ?\n\n", Delimited(("a", "b"), comment="|")),
        (
            "@relation r\n% a comment\n@attribute a real\n@attribute 'b' {red,blue}\n@data\n1,red\n%\n2.5,blue\n?,?\n",
            Arff(),
        ),
        ('@RELATION r\n@ATTRIBUTE a\tREAL\n@ATTRIBUTE "b" {red, blue}\n\n@DATA\n1,red\n2.5,blue\n?,?\n', Arff()),
    ],
)
def test_a_table_reads_the_same_in_every_format(text: str, file_format: Delimited | Arff) -> None:
    columns = columns_of(text, file_format, a="number", b="category")
    assert values(columns) == {"a": [1.0, 2.5, "missing"], "b": ["red", "blue", "missing"]}
    assert columns["a"].dtype == np.float64 and columns["b"].dtype == object


def test_a_quoted_cell_may_hold_the_separator() -> None:
    assert values(columns_of('1 "a b"\n2 ""\n', Delimited(("n", "s"), separator=None), s="category")) == {
        "s": ["a b", "missing"]
    }
    assert values(columns_of('1,"a, b"\n', Delimited(("n", "s")), s="category")) == {"s": ["a, b"]}


def test_columns_come_in_the_order_asked_for_and_no_others() -> None:
    columns = columns_of("1,2,3\n", Delimited(("a", "b", "c")), c="number", a="number")
    assert list(columns) == ["c", "a"]


def test_integer_labels_may_be_written_as_floats() -> None:
    column = columns_of("1.\n26.\n-1.000e+00\n", Delimited(("y",)), y="integer")["y"]
    assert column.dtype == np.int64 and column.tolist() == [1, 26, -1]


def test_reading_stops_after_max_rows_and_does_not_look_further() -> None:
    assert columns_of("1\n2\nnot a number\n", Delimited(("a",)), max_rows=2, a="number")["a"].tolist() == [1, 2]


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK_ROWS", 3)
    text = "".join(f"{row},{'?' if row == 4 else 'x'}\n" for row in range(8))
    columns = columns_of(text, Delimited(("a", "b")), a="number", b="category")
    assert values(columns) == {"a": list(range(8)), "b": ["missing" if row == 4 else "x" for row in range(8)]}
    with pytest.raises(DatasetContentError, match="row 8 of the file has 1 cells instead of 2"):
        columns_of("1,2\n" * 7 + "1\n", Delimited(("a", "b")), a="number")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a\nx\n", "column 'a' of the file holds 'x', which is not a number"),
        ("a,b\n1\n", "row 1 of the file has 1 cells instead of 2"),
        ("a,b\n1,2,3\n", "row 1 of the file has 3 cells instead of 2"),
        ("b,c\n1,2\n", "the file has no column 'a'; its columns are b, c"),
        ("", "the file has no column 'a'; its columns are none"),
        ("a\n", "the file has no rows"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: str, complaint: str) -> None:
    with pytest.raises(DatasetContentError, match=complaint):
        columns_of(text, Delimited(), a="number")


def test_what_is_no_text_table_is_told() -> None:
    with pytest.raises(DatasetContentError, match=r"the file is not a table \(field larger than field limit"):
        columns_of("x" * 200_000, Delimited(("a",)), a="number")


@pytest.mark.parametrize("cell", ["1.5", "?"])
def test_a_label_that_is_no_integer_is_told(cell: str) -> None:
    with pytest.raises(DatasetContentError, match="which is not an integer"):
        columns_of(f"1\n{cell}\n", Delimited(("y",)), y="integer")
