"""Hooks of `mkdocs build`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Remove pages that do not exist from the navigation. A page that is not in the navigation is a warning."""
    docs = Path(config.docs_dir)
    config.nav = [kept for item in config.nav or [] if (kept := _existing(item, docs)) is not None]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Publish the example scripts next to the pages that show them."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Redirect links to the example scripts, which are outside docs/ in the repository, to their published copies."""
    return markdown.replace("](../../examples/", "](../examples/")


def _existing(item: Any, docs: Path) -> Any:
    """Return an entry of the navigation, a page or a titled section, without pages that do not exist."""
    if isinstance(item, str):
        return item if (docs / item).is_file() else None
    [(title, target)] = item.items()
    if isinstance(target, list):
        kept = [own for entry in target if (own := _existing(entry, docs)) is not None]
        return {title: kept} if kept else None
    return item if (docs / target).is_file() else None
