"""The files of a page: each whole or not at all, whoever else writes the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabgnm.paper.output import Page, write_page


def page(draw: object) -> Page:
    return Page("tables", "Tables", ["a remark"], [], [{"a": 1}], {}, draw)  # type: ignore[arg-type]


def test_two_that_write_the_same_page_at_once_do_not_meet(tmp_path: Path) -> None:
    def draw(part: Path) -> None:
        part.write_bytes(b"outer")
        if not list(tmp_path.glob("tables.png")):  # another process comes to its end in the middle of this one
            write_page(page(lambda own: own.write_bytes(b"inner")), tmp_path, {})
            assert part.read_bytes() == b"outer"

    write_page(page(draw), tmp_path, {})
    assert (tmp_path / "tables.png").read_bytes() == b"outer"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"tables.{end}" for end in ("csv", "json", "md", "png")]


def test_a_picture_that_fails_leaves_no_part_behind(tmp_path: Path) -> None:
    def draw(part: Path) -> None:
        part.write_bytes(b"half a picture")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_page(page(draw), tmp_path, {})
    assert list(tmp_path.iterdir()) == []
