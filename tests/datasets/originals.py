"""A few made-up rows of every data set, in the format of its original archive."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from tabgnm.datasets.registry import REGISTRY
from tabgnm.datasets.spec import Archive, DatasetSpec
from tests.datasets.lzw_writer import compress


@dataclass(frozen=True)
class Original:
    """The files of an archive, and what is to be read from them: the features of the clean variant, and the target."""

    files: dict[str, bytes]
    data: list[list[Any]]
    target: list[Any]

    def archive(self) -> bytes:
        if "CaliforniaHousing/cal_housing.data" in self.files:
            return tar_of(self.files)
        return zip_of(self.files)


def zip_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def numbers(start: float, count: int) -> list[float]:
    return [start + index / 4 for index in range(count)]


def line(cells: list[Any], separator: str = ",") -> str:
    return separator.join(map(str, cells)) + "\n"


BOARDS = [["b"] * 41 + ["x"], ["o"] + ["b"] * 41, ["x"] * 2 + ["b"] * 40]
PHISHING_NAMES = REGISTRY["phishing"].columns
DRY_BEAN_NAMES = REGISTRY["dry_bean"].columns

ORIGINALS = {
    "abalone": Original(
        {
            "abalone.data": b"M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15\nI,0.33,0.255,0.08,0.205,0.0895,0.0395,0.055,7\n",
            "abalone.names": b"1. Title of Database: Abalone data\n",
            "Index": b"Index of abalone\n",
        },
        [["M", 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15], ["I", 0.33, 0.255, 0.08, 0.205, 0.0895, 0.0395, 0.055]],
        [15, 7],
    ),
    "adult": Original(
        {
            "adult.data": b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K\n\n",
            "adult.test": b"|1x3 Cross validator\n25, ?, 226802, 11th, 7, Never-married, ?, Own-child, Black, Male, 0, 0, 40, ?, >50K.\n\n",
            "old.adult.names": b"| the format of the C4.5 program\n",
        },
        [
            [39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical", "Not-in-family", "White", "Male", 2174, 0, 40, "United-States"],
            [25, nan, 226802, "11th", 7, "Never-married", nan, "Own-child", "Black", "Male", 0, 0, 40, nan],
        ],
        ["<=50K", ">50K"],
    ),
    "car": Original(
        {"car.data": b"vhigh,vhigh,2,2,small,low,unacc\nlow,low,5more,more,big,high,vgood\n", "car.c45-names": b"unacc, acc"},
        [["vhigh", "vhigh", "2", "2", "small", "low"], ["low", "low", "5more", "more", "big", "high"]],
        ["unacc", "vgood"],
    ),
    "connect4": Original(
        {
            "connect-4.data.Z": compress(
                "".join(line([*board, label]) for board, label in zip(BOARDS, ("win", "loss", "draw"), strict=True)).encode()
            ),
            "connect-4.names": b"1. Title: Connect-4 opening database\n",
        },
        BOARDS,
        ["win", "loss", "draw"],
    ),
    "phishing": Original(
        {
            ".old.arff": b"@relation phishing\n@attribute a { -1,1 }\n@data\n-1\n",
            "Training Dataset.arff": (
                "@relation phishing\n\n"
                + "".join(f"@attribute {name}  {{ -1,0,1 }}\n" for name in PHISHING_NAMES)
                + "\n\n@data\n"
                + line([-1] * 30 + [-1])
                + line([1] * 15 + [0] * 15 + [1])
            ).encode(),
        },
        [[-1] * 30, [1] * 15 + [0] * 15],
        [-1, 1],
    ),
    "wireless": Original(
        {"wifi_localization.txt": b"-64\t-56\t-61\t-66\t-71\t-82\t-81\t1\r\n-57\t-54\t-59\t-65\t-69\t-87\t-81\t4\r\n"},
        [[-64, -56, -61, -66, -71, -82, -81], [-57, -54, -59, -65, -69, -87, -81]],
        [1, 4],
    ),
    "yeast": Original(
        {"yeast.data": b"ADT1_YEAST  0.58  0.61  0.47  0.13  0.50  0.00  0.48  0.22  MIT\nACH1_YEAST  0.42  0.37  0.59  0.20  0.50  0.00  0.52  0.29  CYT\n"},
        [[0.58, 0.61, 0.47, 0.13, 0.5, 0, 0.48, 0.22], [0.42, 0.37, 0.59, 0.2, 0.5, 0, 0.52, 0.29]],
        ["MIT", "CYT"],
    ),
    "page_blocks": Original(
        {"page-blocks.data.Z": compress(b"   5    7    35  1.400  .400  .657  2.33    14    23     6 1\n   6    7    42  1.167  .429  .881  3.60    18    37     5 2\n")},
        [[5, 7, 35, 1.4, 0.4, 0.657, 2.33, 14, 23, 6], [6, 7, 42, 1.167, 0.429, 0.881, 3.6, 18, 37, 5]],
        [1, 2],
    ),
    "dry_bean": Original(
        {
            "DryBeanDataset/Dry_Bean_Dataset.txt": b"a description",
            "DryBeanDataset/Dry_Bean_Dataset.arff": (
                "@RELATION Dry_Beans_Dataset\n"
                + "".join(f"@ATTRIBUTE {name}\tREAL\n" for name in DRY_BEAN_NAMES[:-1])
                + "@ATTRIBUTE Class\t{SEKER, BARBUNYA, BOMBAY}\n\n@DATA\n"
                + line([*numbers(1, 16), "SEKER"])
                + line([*numbers(2, 16), "BOMBAY"])
            ).encode(),
        },
        [numbers(1, 16), numbers(2, 16)],
        ["SEKER", "BOMBAY"],
    ),
    "letter": Original(
        {
            "letter-recognition.data": (line(["T", *range(16)]) + line(["I", *range(1, 17)])).encode(),
            "letter-recognition.data.Z": b"the same, compressed",
        },
        [list(range(16)), list(range(1, 17))],
        ["T", "I"],
    ),
    "electrical_grid": Original(
        {
            "Data_for_UCI_named.csv": (
                '"tau1","tau2","tau3","tau4","p1","p2","p3","p4","g1","g2","g3","g4","stab","stabf"\n'
                + line([*numbers(1, 12), 0.055, '"unstable"'])
                + line([*numbers(3, 12), -0.006, '"stable"'])
            ).encode()
        },
        [numbers(1, 12), numbers(3, 12)],
        ["unstable", "stable"],
    ),
    "susy": Original(
        {
            "SUSY.csv.gz": gzip.compress(
                (
                    line(["0.000000000000000000e+00", *(f"{value:.18e}" for value in numbers(1, 18))])
                    + line(["1.000000000000000000e+00", *(f"{value:.18e}" for value in numbers(2, 18))])
                    + line(["1.000000000000000000e+00", *(f"{value:.18e}" for value in numbers(9, 18))])
                ).encode()
            )
        },
        [numbers(1, 18), numbers(2, 18)],  # the third row is past those that are used
        [0, 1],
    ),
    "isolet": Original(
        {
            "isolet1+2+3+4.data.Z": compress(line([*(f"{value:.4f}" for value in numbers(0, 617)), "1."], ", ").encode()),
            "isolet5.data.Z": compress(line([*(f"{value:.4f}" for value in numbers(1, 617)), "26."], ", ").encode()),
        },
        [numbers(0, 617), numbers(1, 617)],
        [1, 26],
    ),
    "waveform": Original(
        {"waveform-+noise.data.Z": compress((line([*numbers(-1, 40), 2]) + line([*numbers(0, 40), 0])).encode())},
        [numbers(-1, 40), numbers(0, 40)],
        [2, 0],
    ),
    "wine": Original(
        {
            "winequality-red.csv": b'"another";"table"\n1;2\n',
            "winequality-white.csv": (
                ";".join(f'"{name}"' for name in REGISTRY["wine"].columns) + "\n" + line([*numbers(7, 11), 6], ";") + line([*numbers(6, 11), 5], ";")
            ).encode(),
        },
        [numbers(7, 11), numbers(6, 11)],
        [6.0, 5.0],
    ),
    "auto_mpg": Original(
        {
            "auto-mpg.data": (
                b'18.0   8   307.0      130.0      3504.      12.0   70  1\t"chevrolet chevelle malibu"\n'
                b'25.0   4   98.00      ?          2046.      19.0   71  1\t"ford pinto"\n'
                b'26.0   4   97.00      46.00      1835.      20.5   70  2\t"volkswagen 1131 deluxe sedan"\n'
            ),
            "auto-mpg.data-original": b"18.0   8.   307.0      130.0\n",
        },
        [[8, 307, 130, 3504, 12, 70, "1"], [4, 98, nan, 2046, 19, 71, "1"], [4, 97, 46, 1835, 20.5, 70, "2"]],
        [18.0, 25.0, 26.0],
    ),
    "bike_sharing": Original(
        {
            "Readme.txt": b"Bike Sharing Dataset\n",
            "day.csv": b"instant,dteday\n1,2011-01-01\n",
            "hour.csv": (
                line(list(REGISTRY["bike_sharing"].columns))
                + "1,2011-01-01,1,0,1,0,0,6,0,1,0.24,0.2879,0.81,0,3,13,16\n2,2011-01-02,1,0,1,1,0,6,0,2,0.22,0.2727,0.8,0,8,32,40\n"
            ).encode(),
        },
        [
            ["2011-01-01", "1", 0, 1, 0, 0, 6, 0, "1", 0.24, 0.2879, 0.81, 0],
            ["2011-01-02", "1", 0, 1, 1, 0, 6, 0, "2", 0.22, 0.2727, 0.8, 0],
        ],
        [16.0, 40.0],
    ),
    "california": Original(
        {
            "CaliforniaHousing/cal_housing.domain": b"longitude: continuous.\n",
            "CaliforniaHousing/cal_housing.data": (
                b"-122.230000,37.880000,41.000000,880.000000,132.000000,320.000000,128.000000,8.325200,452600.000000\n"
                b"-122.220000,37.860000,21.000000,7000.000000,1000.000000,2500.000000,1000.000000,8.301400,358500.000000\n"
            ),
        },
        [[8.3252, 41, 6.875, 1.03125, 320, 2.5, 37.88, -122.23], [8.3014, 21, 7, 1, 2500, 2.5, 37.86, -122.22]],
        [4.526, 3.585],
    ),
    "year": Original(
        {
            # Published as a plain member; an archive within the archive is read as well.
            "YearPredictionMSD.txt.zip": zip_of({"YearPredictionMSD.txt": (line([2001, *numbers(40, 90)]) + line([1987, *numbers(41, 90)])).encode()})
        },
        [numbers(40, 90), numbers(41, 90)],
        [2001.0, 1987.0],
    ),
}  # fmt: skip


def small_spec(name: str, url: str | None = None) -> DatasetSpec:
    """Return the spec of a data set that has the rows of `ORIGINALS` only, and comes from another place."""
    spec, original = REGISTRY[name], ORIGINALS[name]
    assert isinstance(spec.source, Archive)
    source = replace(spec.source, url=url or spec.source.url, sha256=None)
    return replace(
        spec,
        n_samples=len(original.target),
        n_classes=len(set(original.target)) if spec.task == "classification" else None,
        n_missing=sum(cell != cell for row in original.data for cell in row),
        content_sha256=None,
        source=source,
    )
