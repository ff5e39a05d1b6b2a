"""Pages of reports taken apart."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """A page taken apart; refuses tags that do not match.

    `tables` holds every table as rows of cells: (tag and class, text without words for screen
    readers, other attributes).
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str]]] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self.tables: list[list[list[tuple[dict[str, str], str]]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        assert len(found) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.tags.append((tag, found))
        if tag in self.raw:
            self.raw[tag].append("")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append((found, ""))
        if tag not in VOID:
            self.open.append((tag, found))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1][0] == tag, f"</{tag}> where {self.open[-1]!r} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] in self.raw:
            self.raw[self.open[-1][0]][-1] += data
            return
        self.text += data
        hidden = any(found.get("class") == "sr" for _, found in self.open)
        if not hidden and any(tag in ("th", "td") for tag, _ in self.open):
            attributes, before = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (attributes, before + data)

    def texts(self, table: int) -> list[list[str]]:
        return [[text.strip() for _, text in row] for row in self.tables[table]]

    def attributes(self, name: str) -> list[str]:
        return [found[name] for _, found in self.tags if name in found]
