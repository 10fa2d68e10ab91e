"""Archives and citations of the UCI Machine Learning Repository."""

from __future__ import annotations

from tabgnm.datasets.formats import Arff, Delimited
from tabgnm.datasets.spec import Archive

CC_BY = "CC BY 4.0"
ROOT = "https://archive.ics.uci.edu/static/public"


def uci_archive(uci_id: int, slug: str, members: tuple[str, ...], file_format: Delimited | Arff) -> Archive:
    """Return the archive of a data set in the repository; it has the same name in the cache."""
    return Archive(url=f"{ROOT}/{uci_id}/{slug}.zip", file=f"{slug}.zip", members=members, format=file_format)


def uci_citation(authors: str, year: int, title: str, doi: str) -> str:
    """Return the citation that the repository asks for."""
    return f"{authors} ({year}). {title} [Dataset]. UCI Machine Learning Repository. https://doi.org/10.24432/{doi}"
