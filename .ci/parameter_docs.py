"""Copy the descriptions of parameters into the docstrings of the estimators.

Editors and documentation tools read docstrings from the source, without running it, so the docstring of each estimator
describes all its parameters. The descriptions are written once, in the groups of tabgnm/estimators/parameters.py, and
`make format` copies them.

    python .ci/parameter_docs.py
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

ESTIMATORS = Path(__file__).resolve().parent.parent / "tabgnm" / "estimators"
# File of each estimator, and its groups in the order of the docstring.
GROUPS = {
    f"{network}_{target}.py": (f"{network.upper()}Parameters", f"{target.title()}Parameters", "TrainingParameters")
    for network in ("gnm", "mlp")
    for target in ("classifier", "regressor")
}
SECTION = re.compile(r"(?<=    Parameters\n    ----------\n).*?(?=\n\n    Attributes\n)", re.DOTALL)


def descriptions() -> dict[str, str]:
    """Return the descriptions of each group of parameters, which follow the first line of its docstring."""
    tree = ast.parse((ESTIMATORS / "parameters.py").read_text())
    groups = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Parameters")]
    return {group.name: (ast.get_docstring(group) or "").partition("\n\n")[2] for group in groups}


def with_descriptions(source: str, groups: tuple[str, ...]) -> str:
    """Return the source of an estimator with the descriptions of these groups in its docstring."""
    known = descriptions()
    text = textwrap.indent("\n".join(known[group] for group in groups), "    ")
    found, n_found = SECTION.subn(lambda _: text, source)
    if n_found != 1:
        raise ValueError(f"the docstring has {n_found} sections Parameters before Attributes; expected one")
    return found


def main() -> None:
    """Write all docstrings."""
    for name, groups in GROUPS.items():
        path = ESTIMATORS / name
        path.write_text(with_descriptions(path.read_text(), groups))


if __name__ == "__main__":
    main()
