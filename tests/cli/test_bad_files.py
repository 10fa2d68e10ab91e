"""Files with something wrong in them: each message says what, where, and what to do, in one printable line."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabgnm.cli.tablefiles import TableFileError, check_target, open_table, read_table, require_columns

GOOD = pd.DataFrame({"age": [1, 2, 3], "town": ["Bern", "Chur", None]})
ROWS = "".join(f"{row},{row / 2}\n" for row in range(300_000))  # more than one piece


def parquet(frame: pd.DataFrame | pa.Table = GOOD) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False), buffer)
    return buffer.getvalue()


def feather(frame: pd.DataFrame = GOOD) -> bytes:
    buffer = io.BytesIO()
    frame.to_feather(buffer, compression="uncompressed")
    return buffer.getvalue()


def database(*statements: str) -> bytes:
    with sqlite3.connect(":memory:") as connection:
        for statement in ("CREATE TABLE gone (a)", "DROP TABLE gone", *statements):
            connection.execute(statement)
        connection.commit()
        content = connection.serialize()
    connection.close()
    return content


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    return buffer.getvalue()


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + bytes(30)

# Name of the file, content, options, words of the message.
CASES: dict[str, tuple[str, bytes, dict[str, Any], list[str]]] = {
    # Delimiters and headers
    "a comma is given for semicolons": ("a.csv", b"a;b\n1;2\n", {"delimiter": ","}, ["line 1", "','", "';'", "--delimiter"]),
    "a pipe is given for tabs": ("a.tsv", b"a\tb\n1\t2\n", {"delimiter": "|"}, ["line 1", "'|'", "'\\t'", "--delimiter tab"]),
    "a delimiter of two characters": ("a.csv", b"a,b\n1,2\n", {"delimiter": "||"}, ["'||'", "one character"]),
    "a letter as delimiter": ("a.csv", b"a,b\n1,2\n", {"delimiter": "x"}, ["'x'", "one character"]),
    "spaces between numbers": ("a.txt", b"a b\n1 2\n3 4\n", {}, ["line 1", "no comma", "--delimiter ' '"]),
    "colons between cells": ("a.csv", b"town:age\nBern:41\nChur:7\n", {}, ["line 1", "':'", "--delimiter"]),
    "a name of thousands of digits": ("a.csv", b"9" * 5000 + b",8\n1,2\n", {}, ["line 1", "looks like data"]),
    "no header, only numbers": ("a.csv", b"5.1,3.5\n4.9,3.0\n", {}, ["line 1", "looks like data", "'5.1'", "--no-header"]),
    "no header, whole numbers": ("a.csv", b"7,3,12\n4,9,1\n", {}, ["line 1", "looks like data", "--no-header"]),
    "no header, numbers and text": ("a.csv", b"5.1,setosa\n4.9,virginica\n", {}, ["line 1", "looks like data", "--no-header"]),
    "no header, whole numbers and text": ("a.csv", b"39,Bachelor,13\n50,Master,9\n", {}, ["line 1", "looks like data"]),
    "no header, after blank lines": ("a.csv", b"\n\n5.1,3.5\n4.9,3.0\n", {}, ["line 3", "looks like data"]),
    "a row that is repeated": ("a.csv", b"yes,no,yes\nyes,no,yes\n", {}, ["line 1", "'yes'", "columns 1, 3", "--no-header"]),
    "duplicate names": ("a.csv", b"age,town,age\n1,Bern,2\n", {}, ["line 1", "'age'", "columns 1, 3", "rename"]),
    "duplicate names but for spaces": ("a.csv", b"age, age\n1,2\n", {}, ["line 1", "'age'", "columns 1, 2"]),
    "an empty name": ("a.csv", b"a,,c\n1,2,3\n", {}, ["line 1", "column 2 has no name", "--no-header"]),
    "the index of pandas": ("a.csv", b",a\n0,5\n1,6\n", {}, ["line 1", "column 1 has no name", "index=False"]),
    "a blank name": ("a.csv", b"a,  ,c\n1,2,3\n", {}, ["column 2 has no name"]),
    "a name for the last column is missing": (
        "a.csv", b"a,b,\n" + b"1,2,\n" * 60 + b"1,2,3\n", {}, ["line 62", "'3'", "no name", "name it"],
    ),
    # Rows
    "too many cells": ("a.csv", b"a,b\n1,2\n3,4,5\n", {}, ["line 3", "3 cells", "header has 2", "double quotes"]),
    "too few cells": ("a.csv", b"a,b\n1,2\n\n3\n", {}, ["line 4", "1 cell,", "header has 2", "missing cells"]),
    "too few cells after many rows": ("a.csv", f"a,b\n{ROWS}7\n".encode(), {}, ["line 300,002", "1 cell,"]),
    "too few cells after a cell of two lines": ("a.csv", b'a,b\n1,"x\ny"\n3\n', {}, ["line 4", "1 cell,"]),
    "too few cells after line ends of Windows": ("a.csv", b"a,b\r\n1,2\r\n3\r\n", {}, ["line 3", "1 cell,"]),
    "too few cells after line ends of old Macs": ("a.csv", b"a,b\r1,2\r3\r", {}, ["line 3", "1 cell,"]),
    "too few cells without a header": ("a.csv", b"1,2\n3\n", {"header": False}, ["line 2", "first line has 2"]),
    "a delimiter at the end of some lines": ("a.csv", b"a,b\n1,2\n3,4,\n", {}, ["line 3", "3 cells", "at the end of the line"]),
    "a title above the header": ("a.csv", b"Sales of 2024\n\na,b\n1,2\n3,4\n", {}, ["line 3", "2 cells", "header has 1"]),
    "a quote that is not closed": ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', {}, ["line 3", "never closed"]),
    "a quote that is not closed in the header": ("a.csv", b'a,"b\n1,2\n', {}, ["line 1", "never closed"]),
    "a quote that is not closed in a large file": (
        "a.csv", f'a,b\n1,"2\n{ROWS * 6}'.encode(), {}, ["line 2", "longer than 16 MiB", "quote"],
    ),
    "text after a closing quote": ("a.csv", b'a,b\n1,2\n3,"5"6\n', {}, ["line 3", "after a closing quote", "twice"]),
    "a NUL byte": ("a.csv", b"a,b\n1,2\n3,\x004\n", {}, ["line 3", "NUL byte"]),
    "a NUL byte after many rows": ("a.csv", f"a,b\n{ROWS}7,\0\n".encode(), {}, ["line 300,002", "NUL byte"]),
    "a line that is long only after it is unpacked": (
        "a.csv.gz", gzip.compress(b"a,b\n1," + b"x" * (40 * 2**20), 1, mtime=0), {}, ["line 2", "longer than 16 MiB"],
    ),
    "an extremely long line": ("a.csv", b"a,b\n1," + b"x" * (20 * 2**20), {}, ["line 2", "longer than 16 MiB"]),
    # Nothing in it
    "an empty file": ("a.csv", b"", {}, ["'a.csv'", "is empty"]),
    "an empty gzipped file": ("a.csv.gz", gzip.compress(b"", mtime=0), {}, ["is empty"]),
    "only a byte order mark": ("a.csv", b"\xef\xbb\xbf", {}, ["only blank lines"]),
    "only a header": ("a.csv", b"a,b\n", {}, ["header but no rows"]),
    "only a header, without a line end": ("a.csv", b"a,b", {}, ["header but no rows"]),
    "only blank lines": ("a.csv", b"\n\r\n\n", {}, ["only blank lines"]),
    # Encodings
    "latin-1": ("a.csv", "town\nBern\nZürich\n".encode("latin-1"), {}, ["not UTF-8", "0xfc", "line 3", "--encoding latin-1"]),
    "latin-1 in a name": ("a.csv", "größe,b\n1,2\n".encode("latin-1"), {}, ["not UTF-8", "0xf6", "line 1"]),
    "mixed encodings": (
        "a.csv", "town\nZürich\n".encode() * 9 + "Genève\n".encode("cp1252"), {}, ["not UTF-8", "0xe8", "line 19"],
    ),
    "latin-1 after many rows": ("a.csv", f"a,b\n{ROWS}1,é\n".encode("latin-1"), {}, ["0xe9", "line 300,002"]),
    "UTF-16 without a mark": ("a.csv", "a,b\n1,2\n".encode("utf-16-le"), {}, ["UTF-16", "--encoding utf-16-le"]),
    "UTF-16 without a mark, big end first": ("a.csv", "a,b\n1,2\n".encode("utf-16-be"), {}, ["--encoding utf-16-be"]),
    "half a character of UTF-16": ("a.csv", "a,b\n1,2\n".encode("utf-16") + b"x", {}, ["'utf-16'", "line 3"]),
    "an encoding that is not the right one": ("a.csv", "a\nZürich\n".encode(), {"encoding": "ascii"}, ["'ascii'", "0xc3", "line 2"]),
    "an encoding that does not exist": ("a.csv", b"a\n1\n", {"encoding": "utf-7b"}, ["unknown encoding", "'utf-7b'", "latin-1"]),
    "an encoding that is not one of text": ("a.csv", b"a\n1\n", {"encoding": "base64"}, ["unknown encoding", "'base64'"]),
    # Other formats than the name says
    "a picture": ("a.csv", PNG, {}, ["a PNG picture", "not a CSV file"]),
    "a spreadsheet": ("a.csv", archive(), {}, [".xlsx", "save the sheet as CSV"]),
    "a pickle": ("a.csv", pickle.dumps(GOOD), {}, ["a pickle of Python", "Parquet"]),
    "a Parquet file called .csv": ("a.csv", parquet(), {}, ["a Parquet file", "--format parquet"]),
    "a CSV file called .parquet": ("a.parquet", b"a,b\n1,2\n", {}, ["not a Parquet file", "--format csv"]),
    "a database called .csv": ("a.csv", database("CREATE TABLE t (a)"), {}, ["an SQLite database", "--format sqlite"]),
    "a CSV file called .db": ("a.db", b"a,b\n1,2\n", {}, ["not a SQLite file", "--format csv"]),
    "a Parquet file called .feather": ("a.feather", parquet(), {}, ["a Parquet file", "rename it to .parquet"]),
    "a CSV file called .feather": ("a.feather", b"a,b\n1,2\n", {}, ["damaged", "Feather"]),
    "a Feather file of the first version": ("a.feather", b"FEA1" + bytes(60), {}, ["first version", "write it again"]),
    "a gzipped file called .csv": ("a.csv", gzip.compress(b"a\n1\n", mtime=0), {}, ["gzip", "end in .gz"]),
    "a plain file called .gz": ("a.csv.gz", b"a,b\n1,2\n", {}, ["not compressed with gzip", "rename it without .gz"]),
    "a zip archive called .gz": ("a.csv.gz", archive(), {}, ["not compressed with gzip", "zip archive"]),
    "an unknown ending": ("a.foo", b"a\n1\n", {}, ["no known ending", ".csv", "--format csv"]),
    "no ending": ("table", b"a\n1\n", {}, ["'table'", "no known ending", "--format csv"]),
    "a spreadsheet by its name": ("a.xlsx", archive(), {}, ["no known ending", "save the sheet as CSV"]),
    "JSON by its name": ("a.json", b"[]", {}, ["one object per line", ".jsonl"]),
    "a format that does not exist": ("a.csv", b"a\n1\n", {"format": "excel"}, ["unknown format 'excel'", "csv, ", "parquet"]),
    # Damage
    "a truncated Parquet file": ("a.parquet", parquet()[:-20], {}, ["damaged or truncated Parquet", "copy"]),
    "half a Parquet file": ("a.parquet", parquet()[:100], {}, ["damaged or truncated Parquet", "copy"]),
    "a damaged Parquet file": ("a.parquet", parquet()[:-60] + bytes(52) + parquet()[-8:], {}, ["damaged or truncated Parquet"]),
    "a truncated Feather file": ("a.feather", feather()[:-40], {}, ["damaged or truncated Feather", "copy"]),
    "a truncated gzipped file": ("a.csv.gz", gzip.compress(f"a,b\n{ROWS}".encode(), mtime=0)[:-9], {}, ["truncated gzip", "copy"]),
    "a damaged gzipped file": ("a.csv.gz", gzip.compress(b"a\n1\n", mtime=0)[:-8] + bytes(8), {}, ["damaged", "gzip", "copy"]),
    "garbage after the mark of gzip": ("a.csv.gz", b"\x1f\x8b" + b"x" * 50, {}, ["damaged", "gzip"]),
    "a truncated database": ("a.db", database("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")[:5000], {}, ["SQLite", "copy it again"]),
    # JSON lines
    "a broken line": ("a.jsonl", b'{"a": 1}\n{"a": 2\n', {}, ["line 2", "column 8", "not JSON", "one object per line"]),
    "a JSON array": ("a.jsonl", b' [{"a": 1}]\n', {}, ["JSON array", "jq"]),
    "an object over several lines": ("a.jsonl", b'{\n  "a": 1\n}\n', {}, ["line 1", "not JSON", "one object per line"]),
    "a number in place of an object": ("a.jsonl", b'{"a": 1}\n17\n', {}, ["line 2", "'17'", "not an object"]),
    "a nested object": ("a.jsonl", b'{"a": 1}\n{"a": {"b": 2}}\n', {}, ["line 2", "'a'", "an object", "several keys"]),
    "a nested list": ("a.jsonl", b'{"a": [1]}\n', {}, ["line 1", "'a'", "a list"]),
    "nesting that is too deep": ("a.jsonl", b'{"a": ' + b"[" * 100_000 + b"\n", {}, ["line 1"]),
    "a new key": ("a.jsonl", b'{"age": 1}\n{"aeg": 1}\n', {}, ["line 2", "'aeg'", "did you mean 'age'?", "null"]),
    "a key that occurs twice": ("a.jsonl", b'{"a": 1, "a": 2}\n', {}, ["line 1", "'a'", "twice"]),
    "an object without keys": ("a.jsonl", b"{}\n{}\n", {}, ["line 1", "no keys"]),
    "only blank lines of JSON": ("a.jsonl", b"\n \n", {}, ["only blank lines"]),
    "JSON in latin-1": ("a.jsonl", '{"a": "x"}\n{"a": "ü"}\n'.encode("latin-1"), {}, ["0xfc", "line 2", "--encoding"]),
    "an integer of very many digits": ("a.jsonl", b'{"a": ' + b"9" * 5000 + b"}\n", {}, ["line 1", "digits"]),
    # Types of columns
    "a column of lists": ("a.parquet", parquet(pa.table({"a": [[1], [2]]})), {}, ["'a'", "list", "several columns"]),
    "a column of bytes": ("a.parquet", parquet(pa.table({"a": [b"x"]})), {}, ["'a'", "binary"]),
    "a Parquet file without columns": ("a.parquet", parquet(pa.table({})), {}, ["no columns"]),
    "duplicate names in a Parquet file": (
        "a.parquet", parquet(pa.table([[1], [2]], names=["a", "a"])), {}, ["2 columns have the name 'a'", "rename all but one"],
    ),
    "a Parquet file without rows": ("a.parquet", parquet(GOOD.head(0)), {}, ["no rows"]),
    "a Feather file without rows": ("a.feather", feather(GOOD.head(0)), {}, ["no rows"]),
    # Databases
    "a database without tables": ("a.db", database(), {}, ["without tables"]),
    "several tables": (
        "a.db", database("CREATE TABLE homes (a)", "CREATE TABLE people (b)"), {}, ["several tables: 'homes', 'people'", "--table"],
    ),
    "a table that is not there": (
        "a.db", database("CREATE TABLE homes (a)"), {"table": "home"}, ["no table 'home'", "did you mean 'homes'?"],
    ),
    "an empty table": ("a.db", database("CREATE TABLE homes (a)"), {}, ["'homes'", "no rows"]),
    "binary data in a table": (
        "a.db", database("CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (x'00')"), {}, ["'t'", "row 2", "'a'", "binary"],
    ),
    "a view that fails": (
        "a.db", database("CREATE TABLE t (a)", "CREATE VIEW v AS SELECT b FROM t"), {"table": "v"}, ["SQLite", "no such column"],
    ),
    # Options that the format does not have
    "a table of a CSV file": ("a.csv", b"a\n1\n", {"table": "t"}, ["--table", "SQLite", "leave it out"]),
    "a delimiter of a Parquet file": ("a.parquet", parquet(), {"delimiter": ";"}, ["--delimiter", "CSV"]),
    "an encoding of a database": ("a.db", database(), {"encoding": "utf-8"}, ["--encoding", "text files"]),
    "JSON lines without a header": ("a.jsonl", b'{"a": 1}\n', {"header": False}, ["--no-header", "CSV"]),
    # What a terminal would act on
    "a terminal escape in a name": ("a.csv", b"\x1b[31mred,\x1b[31mred\n1,2\n", {}, ["'\\x1b[31mred'", "rename"]),
    "a terminal escape in the name of the file": ("\x1b]0;x\x07.csv", b"", {}, ["'\\x1b]0;x\\x07.csv'", "is empty"]),
    "a direction mark in a name": ("a.csv", "\u202ea,\u202ea\n1,2\n".encode(), {}, ["'\\u202ea'"]),
}  # fmt: skip


def test_there_are_many_cases() -> None:
    assert len(CASES) >= 60


def refused(read: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(TableFileError) as caught:
        read()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.isprintable() and len(message) < 1000


def exhausted(source: Any, **options: Any) -> None:
    with open_table(source, **options) as reader:
        for _ in reader:
            pass


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_refused_with_the_reason(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, content, options, words = CASES[case]
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    refused(lambda: read_table(name, **options), words)
    refused(lambda: exhausted(name, **options), words)


def test_no_header_is_advised_for_text_only(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(pa.table([[1], [2]], names=["a", "a"])))
    with pytest.raises(TableFileError) as caught:
        read_table(path)
    assert "--no-header" not in str(caught.value)


# What is not a file at all


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tables.csv").mkdir()
    refused(lambda: read_table(tmp_path / "tables.csv"), ["is a folder", "file in it"])


def test_a_missing_file_is_refused_with_a_near_match(tmp_path: Path) -> None:
    (tmp_path / "homes.csv").write_text("a\n1\n")
    refused(lambda: read_table(tmp_path / "hoems.csv"), ["hoems.csv' does not exist", "did you mean 'homes.csv'?"])


def test_names_that_have_only_the_ending_in_common_are_no_near_match(tmp_path: Path) -> None:
    for name in ("tilde.csv", "nofile.svg"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(TableFileError, match=r"does not exist$"):
        read_table(tmp_path / "nofile.csv")


def test_a_near_match_may_have_another_ending(tmp_path: Path) -> None:
    (tmp_path / "homes.csv.gz").write_text("a\n1\n")
    refused(lambda: read_table(tmp_path / "homes.parquet"), ["did you mean 'homes.csv.gz'?"])


def test_a_file_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    refused(lambda: read_table(tmp_path / "no" / "a.csv"), ["does not exist", "nor does the folder"])


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("gone.csv")
    refused(lambda: read_table(tmp_path / "a.csv"), ["is a link to 'gone.csv'", "does not exist"])


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("a.csv")
    refused(lambda: read_table(tmp_path / "a.csv"), ["cannot be read"])


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    refused(lambda: read_table(tmp_path / "a.csv"), ["pipe, socket or device", "give - as the name"])


def test_a_device_is_refused() -> None:
    refused(lambda: read_table("/dev/zero", format="csv"), ["pipe, socket or device"])


def test_a_name_with_a_nul_is_refused() -> None:
    refused(lambda: read_table("a\0b.csv"), ["'a\\x00b.csv'", "cannot be read"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    path.chmod(0)
    refused(lambda: read_table(path), ["cannot be read", "Permission denied"])


# Columns that commands ask for


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["price"], ["'homes.csv' has no column 'price'", "did you mean 'Price'?"]),
        (["town", "sizes"], ["no columns 'town', 'sizes'; did you mean 'size' instead of 'sizes'?"]),
        (["prise", "sizes"], ["; did you mean 'Price' instead of 'prise', 'size' instead of 'sizes'?"]),
        (["town"], ["no column 'town'", "it has 'Price', 'size'"]),
        (["prose"], ["no column 'prose'", "it has 'Price', 'size'"]),
        (["\x1b[31m"], ["no column '\\x1b[31m'"]),
        ([f"column {place}" for place in range(5000)], ["(5,000 in all)"]),
    ],
)
def test_missing_columns_are_named_with_near_matches(wanted: list[str], words: list[str]) -> None:
    refused(lambda: require_columns(["Price", "size"], wanted, "homes.csv"), words)


def test_further_columns_are_no_problem() -> None:
    require_columns(["Price", "size", "town"], ["size"], "homes.csv")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("NA\n?\n\nnull\n", ["no value in any row", "NA", "another target"]),
        ("1\n2\nNA\n3\nNA\n", ["missing in 2 of 5 rows", "row 3", "delete the rows"]),
        ("7\n7\n7\n", ["the same value '7'", "3 rows", "nothing to learn"]),
    ],
)
def test_a_target_that_cannot_be_learned_is_refused(cells: str, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("age,x\n" + "".join(f"{cell},1\n" for cell in cells.splitlines()))
    refused(lambda: check_target(read_table(path), "age", path), ["'age'", "a.csv'", *words])


def test_a_target_that_is_not_there_is_refused() -> None:
    refused(lambda: check_target(GOOD, "agee", "a.csv"), ["no column 'agee'", "did you mean 'age'?"])


def test_a_good_target_is_taken() -> None:
    check_target(GOOD, "age", "a.csv")
