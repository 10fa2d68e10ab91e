"""Makes report.png and report-columns.png: python docs/images/report_images.py (needs Chromium)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from sklearn.datasets import load_diabetes, load_wine

from tabgnm import GNMClassifier, GNMRegressor

HERE = Path(__file__).resolve().parent


def write_reports(folder: Path) -> None:
    wine = load_wine(as_frame=True)
    labels = wine.target.map(dict(enumerate(["Barolo", "Grignolino", "Barbera"]))).rename("cultivar")
    GNMClassifier(random_state=0).fit(wine.data, labels).report(wine.data, labels, folder / "wine.html")
    X, y = load_diabetes(as_frame=True, return_X_y=True, scaled=False)
    y = y.rename("progression")
    GNMRegressor(random_state=0).fit(X, y).report(X, y, folder / "diabetes.html")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        write_reports(folder)
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 1240})
        page.goto((folder / "diabetes.html").as_uri())
        page.screenshot(path=HERE / "report.png")
        page = browser.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="dark")
        page.goto((folder / "wine.html").as_uri() + "#columns")
        page.wait_for_timeout(1000)  # the page scrolls
        page.screenshot(path=HERE / "report-columns.png")
        browser.close()


if __name__ == "__main__":
    main()
