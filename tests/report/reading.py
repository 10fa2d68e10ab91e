"""Reads the figures of a report back from its HTML, as a reader would."""

from __future__ import annotations

import html
import re


def plain(code: str) -> str:
    """Return the text of a piece of HTML on one line."""
    return " ".join(html.unescape(re.sub(r"<title>.*?</title>|<[^>]+>", " ", code, flags=re.DOTALL)).split())


def number(shown: str) -> float:
    """Return a number of the page: with a real minus, separators of thousands, or as a percentage."""
    text = shown.replace("−", "-").replace(",", "").replace("\u00a0", " ")
    return float(text.removesuffix(" %")) / 100 if text.endswith(" %") else float(text)


def tiles(page: str) -> dict[str, str]:
    """Return the value of each score."""
    pattern = r'<span class="tile-name">(.*?)</span><strong>(.*?)</strong>'
    return {name: html.unescape(value) for name, value in re.findall(pattern, page)}


def table(page: str, before: str) -> list[list[str]]:
    """Return the cells of the first table after a text, without its headings."""
    body = page.split(before, 1)[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    rows = re.findall(r"<tr.*?</tr>", body, flags=re.DOTALL)
    return [[plain(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)] for row in rows]


def figures(page: str, heading: str) -> list[str]:
    """Return the HTML of all cards with a heading."""
    cards = re.findall(r'<figure class="card">.*?</figure>', page, flags=re.DOTALL)
    return [card for card in cards if plain(card.split("</figcaption>")[0]) == heading]


def figure(page: str, heading: str) -> str:
    """Return the HTML of the only card with a heading."""
    [card] = figures(page, heading)
    return card


def note(card: str) -> str:
    """Return the sentences below a drawing."""
    return plain(card.split('<p class="note">')[1].split("</p>")[0])


def titles(card: str) -> list[str]:
    """Return what the marks of a drawing say when they are pointed at; the first title is that of the drawing."""
    return [html.unescape(own) for own in re.findall(r"<title>(.*?)</title>", card)][1:]


def legend(card: str) -> list[str]:
    """Return the entries of the legend of a card."""
    return [plain(own) for own in re.findall(r"<li>.*?</li>", card, flags=re.DOTALL)]
