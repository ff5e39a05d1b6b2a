"""What to know of a report on runs, in sentences: who judged, then the worst news first."""

from __future__ import annotations

from collections.abc import Iterator

from beir_eval.experiment.foreign import oddities
from beir_eval.experiment.run_folder import ScoreCounts
from beir_eval.measures.significance import SIGNIFICANT, Comparison
from beir_eval.report.model import Column, Report, Row, Section, TableCell
from beir_eval.report.notes import FEW_QUERIES, MOST_MISSING
from beir_eval.report.numbers import BOUNDS_SIGN, gain_text, interval, measure_text, p_text
from personas.plain import plain
from personas.report.query.verdict import ORDER, Finding, Kind
from personas.weak_judges import judge_note
from personas.words import counted, whole

_ONE_BY_ONE = 3
"""Comparisons of a section up to which each has a sentence."""
_NAME = 80
_NAMED = 5


def findings(report: Report) -> tuple[Finding, ...]:
    """Warnings and results: who judged, if that is no strong model, then the worst news first."""
    judges = [each for section in report.sections for each in _judges(section)]
    found = [each for section in report.sections for each in _of_section(report, section)]
    ordered = sorted(dict.fromkeys(found), key=lambda each: ORDER.index(each.kind))
    return tuple(dict.fromkeys((*judges, *ordered)))


def _judges(section: Section) -> Iterator[Finding]:
    ranked = [row for row in section.rows if row.models]
    notes = {row.label: judge_note(row.weak_judge, _judge(row)) for row in ranked}
    for note in filter(None, dict.fromkeys(notes.values())):
        judged = [label for label, each in notes.items() if each == note]
        if len(judged) < len(ranked):
            yield Finding("warn", f"{_names(judged)}: {note[0].lower()}{plain(note[1:])}")
        else:
            yield Finding("warn", plain(note))


def _judge(row: Row) -> str:
    """The name of the model that scored."""
    found = (
        cell.manifest.models.get("scoring", "") for cell in row.cells if cell and cell.manifest
    )
    return ", ".join(dict.fromkeys(found))


def _of_section(report: Report, section: Section) -> Iterator[Finding]:
    cells = [
        (row, column, cell)
        for row in section.rows
        for column, cell in zip(section.columns, row.cells, strict=True)
        if cell is not None
    ]
    if section.changed:
        yield Finding("bad", f"Files were changed after the run: {_names(list(section.changed))}.")
    if section.unfinished:
        left_out = [f"{label} on {dataset}" for dataset, label in section.unfinished]
        yield Finding(
            "bad",
            f"{counted(len(left_out), 'run')} not finished and left out: {_names(left_out)}; the "
            "same 'beir-eval run' again finishes them.",
        )
    if lost := [(row.label, cell.metrics.scores) for row, _, cell in cells if _lacks(cell)]:
        _, units = ScoreCounts.unit(counts for _, counts in lost)
        names = _names([label for label, _ in lost])
        yield Finding("bad", f"Queries or more than 1% of the {units} are missing: {names}.")
    if bounded := [row.label for row, _, cell in cells if BOUNDS_SIGN in cell.signs]:
        yield Finding(
            "bad", f"Not all ranks that {report.measure} counts are sorted out: {_names(bounded)}."
        )
    yield from _foreign(cells)
    yield from _comparisons(report, section, cells)
    if few := [column.name for _, column, cell in cells if cell.queries < FEW_QUERIES]:
        yield Finding(
            "warn",
            f"Fewer than {FEW_QUERIES} queries, so intervals and tests are rough: {_names(few)}.",
        )


def _lacks(cell: TableCell) -> bool:
    metrics = cell.metrics
    return bool(metrics.failed or metrics.missing_queries) or cell.missing > MOST_MISSING


def _foreign(cells: list[tuple[Row, Column, TableCell]]) -> Iterator[Finding]:
    for row, column, cell in cells:
        note = cell.manifest.foreign if cell.manifest else None
        unknown = (note.unknown_documents or note.unseen_documents) if note else None
        if note and unknown:
            said = f"{_name(row.label)} on {_name(column.name)}: {'; '.join(oddities(note))}"
            if unknown == note.documents:
                said += ", which is all of them: see whether its ids are those of this collection"
            yield Finding("bad" if unknown == note.documents else "warn", f"{said}.")


def _comparisons(
    report: Report, section: Section, cells: list[tuple[Row, Column, TableCell]]
) -> Iterator[Finding]:
    base = next((row.cells for row in section.rows if row.is_baseline), ())
    sound = {
        column.name
        for column, cell in zip(section.columns, base, strict=False)
        if cell and cell.sound
    }
    compared = [
        (row, column, cell, cell.comparison)
        for row, column, cell in cells
        if cell.comparison and cell.manifest and cell.sound and column.name in sound
    ]
    if len(compared) > _ONE_BY_ONE:
        yield _counted(section, [than for *_, than in compared])
        return
    for row, column, cell, than in compared:
        ends = interval(than.interval.low, than.interval.high, signed=True)
        kind, words = _decision(than)
        yield Finding(
            kind,
            f"{_name(row.label)} {words} {_name(section.baseline)} on {_name(column.name)}: "
            f"{measure_text(cell.honest)}, {gain_text(than.difference)} "
            f"({100 * report.level:g}% interval {ends}, p {p_text(than.p_adjusted)})"
            f"{_reach(than, report.margin)}.",
        )


def _decision(than: Comparison) -> tuple[Kind, str]:
    if than.p_adjusted >= SIGNIFICANT:
        return "warn", "is not significantly better or worse than"
    return ("good", "is better than") if than.difference > 0 else ("bad", "is worse than")


def _reach(than: Comparison, margin: float) -> str:
    """What a test that found no difference says all the same."""
    if than.p_adjusted < SIGNIFICANT:
        return ""
    if than.p_equivalent < SIGNIFICANT:
        return f"; equivalent within {margin:g}"
    if than.p_not_worse < SIGNIFICANT:
        return f"; not worse by {margin:g}"
    if than.detectable is None:
        return ""
    return f"; so few queries show differences from {measure_text(than.detectable)} on"


def _counted(section: Section, compared: list[Comparison]) -> Finding:
    kinds = [_decision(than)[0] for than in compared]
    worse, better = kinds.count("bad"), kinds.count("good")
    return Finding(
        "bad" if worse else "good" if better == len(kinds) else "warn",
        f"Of {counted(len(kinds), 'comparison')} with {_name(section.baseline)} in "
        f"“{_name(section.title)}”, {whole(worse)} {'is' if worse == 1 else 'are'} worse, "
        f"{whole(len(kinds) - worse - better)} undecided, {whole(better)} better "
        f"(corrected p below {SIGNIFICANT}).",
    )


def _names(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = len(unique) - _NAMED
    shown = ", ".join(map(_name, unique[:_NAMED]))
    return shown if more <= 0 else f"{shown} and {whole(more)} more"


def _name(text: str) -> str:
    return plain(text, _NAME)
