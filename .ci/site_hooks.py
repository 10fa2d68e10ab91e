"""What `mkdocs build` does beyond mkdocs.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave pages out of the navigation that do not exist; a page that it omits is a warning, so none is lost."""
    docs = Path(config.docs_dir)
    config.nav = [kept for item in config.nav or [] if (kept := _existing(item, docs)) is not None]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Publish the example scripts beside the pages that show them."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the example scripts to their copies; those of the repository are outside of docs/."""
    return markdown.replace("](../../examples/", "](../examples/")


def _existing(item: Any, docs: Path) -> Any:
    """Return an entry of the navigation, a page or a titled section, without pages that are not there."""
    if isinstance(item, str):
        return item if (docs / item).is_file() else None
    [(title, target)] = item.items()
    if isinstance(target, list):
        kept = [own for entry in target if (own := _existing(entry, docs)) is not None]
        return {title: kept} if kept else None
    return item if (docs / target).is_file() else None
