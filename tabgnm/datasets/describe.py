"""Descriptions of data sets: the ``DESCR`` of `load_dataset`, and the output of ``tabgnm datasets info``."""

from __future__ import annotations

from tabgnm.datasets.content import Checked
from tabgnm.datasets.spec import Archive, DatasetSpec, Variant

CHECKED = {
    "values": "number of rows, classes and missing values, and a checksum of the values",
    "counts": "only counts, such as the number of rows (no checksum of the values is known)",
    "nothing": "nothing: loaded with verify=False",
}


def describe(spec: DatasetSpec, variant: Variant, *, n_rows: int | None = None, checked: Checked | None = None) -> str:
    """Describe a data set.

    Parameters
    ----------
    spec : DatasetSpec
        The data set.
    variant : {"clean", "paper", "sample"}
        The variant.
    n_rows : int, optional
        The number of loaded rows. By default, the number of rows of the variant.
    checked : {"values", "counts", "nothing"}, optional
        How the rows were verified; None if none were loaded.

    Returns
    -------
    str
        A few lines of text.
    """
    n_rows = spec.n_samples if n_rows is None else n_rows
    features = spec.feature_names(variant)
    facts = {
        "Name": f"{spec.name}, variant {variant!r}",
        "Task": spec.task + (f", {spec.n_classes} classes" if spec.n_classes else ""),
        "Target": spec.target,
        "Rows": f"{n_rows:,}",
        "Features": f"{len(features)}, {_categories(spec, features)}",
        "Missing": f"{spec.n_missing:,} values" if spec.n_missing else "none",
    }
    if n_rows < spec.n_rows_published:
        facts["Sample"] = f"NOT ALL ROWS: {n_rows:,} of the {spec.n_rows_published:,} of the original data set"
    if spec.leaking:
        leaking = " and ".join(spec.leaking)
        facts["Leak"] = (
            f"LEAKY: the target is computed from {leaking}, which the paper uses as features"
            if variant == "paper"
            else f'without {leaking}, from which the target is computed (included in variant="paper")'
        )
    if spec.notes:
        facts["Notes"] = spec.notes
    facts["Source"] = spec.source.url if isinstance(spec.source, Archive) else spec.source.origin
    if spec.uci_id is not None:
        facts["UCI number"] = str(spec.uci_id)
    if checked is not None:
        facts["Checked"] = CHECKED[checked]
    facts["License"] = spec.license
    facts["Citation"] = spec.citation
    width = max(map(len, facts)) + 1
    lines = [f"{what + ':':<{width}} {fact}" for what, fact in facts.items()]
    return "\n".join([spec.title, "=" * len(spec.title), "", spec.description, "", *lines, ""])


def _categories(spec: DatasetSpec, features: tuple[str, ...]) -> str:
    names = [name for name in features if name in spec.categorical]
    if not names:
        return "all numbers"
    if len(names) == len(features):
        return "all categories"
    return f"categories: {', '.join(names)}"
