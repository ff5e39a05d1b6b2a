"""Reports made by hand, and their pages taken apart."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Literal

from beir_eval.experiment.run_folder import (
    DataManifest,
    FirstStageNote,
    Metrics,
    RunCost,
    RunManifest,
    ScoreCounts,
    TieBounds,
)
from beir_eval.measures.values import Comparison, Interval, Values
from beir_eval.report.model import Column, Report, Row, Section, TableCell
from beir_eval.report.numbers import mark

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


def column(name: str = "SciFact", *, paper_queries: int | None = 300) -> Column:
    data = DataManifest(
        dataset=name.lower(),
        description=f"{name}: claims",
        paper=name.lower(),
        split="test",
        documents=5183,
        queries=20,
        queries_in_full=300,
        depth=20,
        first_stage=FirstStageNote(name="BM25", settings={"k1": 0.9}),
        content="0",
    )
    return Column(name, data, paper_queries, f"{name} conditions")


def cell(
    value: float,
    *,
    rank: int = 0,
    paper: float | None = None,
    p: float | None = None,
    first_stage: bool = False,
    **metrics: object,
) -> TableCell:
    ranked = {
        "short_teams": 3,
        "scores": ScoreCounts(asked=400, unreadable=7),
        "taken": RunCost(
            calls=1234, input_tokens=5678, cached_input_tokens=99, output_tokens=42, seconds=75
        ),
    }
    than = None
    if p is not None:
        decision: Literal["better", "worse", ""] = (
            ("better" if value > 0.5 else "worse") if p < 0.05 else ""
        )
        than = Comparison(*(value - 0.5, Interval(-0.01, 0.04), p / 2, p, 12, 5, 3, 0.4, 0.1))
        than = replace(than, worst=than.difference, best=than.difference, decision=decision)
    found = Metrics.model_validate(
        {
            "measures": ("nDCG@10",),
            "means": {"nDCG@10": value},
            "per_query": {"nDCG@10": {f"q{n}": value for n in range(20)}},
            "ties": {"nDCG@10": TieBounds(worst=value - 0.02, best=value + 0.03, by_lot=value)},
            **({} if first_stage else ranked),
            **metrics,
        }
    )
    return TableCell(
        values=Values(found.per_query["nDCG@10"], total=value, failed=found.failed),
        paper=paper,
        rank=rank,
        interval=Interval(value - 0.1, value + 0.1),
        comparison=than,
        metrics=found,
        manifest=None
        if first_stage
        else RunManifest(
            label="x",
            ranker="direct",
            options={},
            config={},
            models={"scoring": "openai:m"},
            prompt_hashes={},
            versions={},
            data="0",
        ),
        signs=mark(p),
    )


def row(label: str, *cells: TableCell | None, **changes: object) -> Row:
    values = [each.value for each in cells if each is not None]
    lots = [each.honest for each in cells if each is not None]
    whole = len(values) == len(cells)
    base = Row(
        label=label,
        cells=cells,
        average=sum(values) / len(values) if whole else None,
        average_by_lot=sum(lots) / len(lots) if whole else None,
        paper_average=None,
        is_baseline=False,
        weak_judge="",
        models="" if cells and cells[0] and cells[0].manifest is None else "openai:m",
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # any field, by name


def section(*rows: Row, columns: tuple[Column, ...] = (column(),), **changes: object) -> Section:
    base = Section(
        name="table1",
        title="Team compositions",
        columns=columns,
        rows=rows,
        baseline="DIRECT",
        figure=None,
        unfinished=(),
        paper_source="",
        measured="nDCG@10",
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # any field, by name


def report(*sections: Section, measure: str = "nDCG@10") -> Report:
    return Report(measure, "holm", 0.95, sections)
