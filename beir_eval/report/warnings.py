"""Results, warnings and notes of a report: the most severe first, then models and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from beir_eval.experiment.labels import models_of, other_server
from beir_eval.experiment.run_folder import DataManifest, Metrics, RunManifest, ScoreCounts
from beir_eval.measures import paper
from beir_eval.measures.metrics import cutoff_of
from beir_eval.measures.values import FEWEST, SIGNIFICANT, Values
from beir_eval.report.model import Report, Row, Section
from beir_eval.report.tables import TIES_SIGN, gain_text, interval, measure_text, p_text
from personas.format import counted, whole
from personas.ranking.types import judge_note
from personas.report.warnings import ORDER, Kind, Notice
from personas.sanitize import plain

REASONS, LONGEST_REASON = 3, 160
"""Reasons listed, the most frequent ones, and characters of each, at most."""
_ONE_BY_ONE = 3
"""Comparisons of a section up to which each has a sentence."""
_NAME, _NAMED = 80, 5
_COUNTING = (
    "Calls, tokens, cost and model time are those of each run by itself: an answer that several "
    "runs share through the ledger counts in each. Model time adds up calls that ran side by side; "
    "of the embedded encoder and cross-encoders it is the time they computed."
)
_SEVERE = ("failed", "empty", "own model")
_Key = TypeVar("_Key", bound=Hashable)


def measured_to(measure: str, depths: Sequence[int]) -> str:
    """Return the measure as tables are headed, with the depth where fewer passages were ranked."""
    cutoff = cutoff_of(measure)
    short = sorted({depth for depth in depths if cutoff and depth < cutoff})
    if not short:
        return measure
    if len(set(depths)) > 1:
        return f"{measure} (fewer passages ranked: {', '.join(map(str, short))})"
    return f"{measure} of the top {short[0]}"


def conditions(data: DataManifest, paper_queries: int | None) -> str:
    """Return how much of a data set was ranked, and how much the paper ranked, in words."""
    queries = whole(data.queries)
    if data.queries != data.queries_in_full:
        queries += f" of {whole(data.queries_in_full)}"
    stage = data.first_stage
    settings = [
        str(value) if key == "engine" else f"{key} {value}" for key, value in stage.settings.items()
    ]
    by = f"{stage.name} ({', '.join(settings)})" if settings else stage.name
    ours = f"{queries} queries, top {data.depth} by {by}"
    if paper_queries is None:
        return ours
    return f"{ours}; the paper: {whole(paper_queries)} queries, top {paper.DEPTH}"


def model_names(manifests: Mapping[str, RunManifest]) -> str:
    """Return the models of a row, given its manifests by column: by column where they differ."""
    columns_of = _grouped((models_of(each), column) for column, each in manifests.items())
    if len(columns_of) == 1:
        return next(iter(columns_of))
    return "; ".join(f"{', '.join(columns)}: {names}" for names, columns in columns_of.items())


def program_note(models: Iterable[str]) -> list[str]:
    """Return that some of these models are none, in a sentence; nothing if all are models."""
    names = sorted({name for name in models if name.startswith(("scripted:", "simulated:"))})
    said = "answers by a program: these numbers say nothing about any language model."
    return [f"{', '.join(names)} {said}"] if names else []


def paper_note(source: str) -> str:
    """Explain the columns with the paper's numbers."""
    return (
        f"Columns marked 'paper' hold the paper's numbers, not ours, divided by 100: {source}. "
        "Averages of the paper's numbers are over the data sets of the table."
    )


def warnings(report: Report) -> tuple[Notice, ...]:
    """Return weak judges, then results, then warnings, the most severe first."""
    results = [each for section in report.sections for each in _comparisons(section)]
    judges = [each for section in report.sections for each in _judges(section)]
    found = [each for section in report.sections for each in _of_section(section)]
    ordered = sorted(dict.fromkeys(found), key=lambda each: ORDER.index(each.kind))
    return tuple(dict.fromkeys((*judges, *results, *ordered)))


def flaw_notices(values: Iterable[tuple[str, Values]]) -> Iterator[Notice]:
    """Yield what is to be known of named values, each once with the names that it is true of."""
    named = dict(values)
    found = _grouped((flaw, name) for name, of in named.items() for flaw in of.flaws())
    for flaw, names in found.items():
        severe = flaw.kind in _SEVERE or (
            flaw.kind == "missing" and any(named[name].is_open for name in names)
        )
        kind: Kind = "bad" if severe else "note" if flaw.kind in ("undefined", "cut") else "warn"
        said = plain(flaw.said)
        if len(names) < len(named):
            yield Notice(kind, f"{some_of(names, 2 * _NAME)}: {said}.")
        else:
            yield Notice(kind, f"{said[:1].upper()}{said[1:]}.")


def _judges(section: Section) -> Iterator[Notice]:
    ranked = [row for row in section.rows if row.models]

    def note(row: Row) -> str:
        models = (c.manifest.models.get("scoring", "") for c in row.cells if c and c.manifest)
        return judge_note(row.weak_judge, ", ".join(dict.fromkeys(models)))

    for said, labels in _grouped((note(row), row.label) for row in ranked).items():
        some = f"{some_of(labels)}: {said[:1].lower()}{plain(said[1:])}"
        if said:
            yield Notice("warn", some if len(labels) < len(ranked) else plain(said))


def _of_section(section: Section) -> Iterator[Notice]:
    cells = list(section.cells())
    yield from section.warnings
    if section.changed:
        yield Notice("bad", f"Files were changed after the run: {some_of(section.changed)}.")
    if section.unfinished:
        left_out = [f"{label} on {of}" if of else label for of, label in section.unfinished]
        yield Notice(
            "bad",
            f"{counted(len(left_out), 'run')} not finished and left out: {some_of(left_out)}; the "
            "same 'beir-eval run' again finishes them.",
        )
    names = ((f"{row.label} on {column.name}", cell.values) for row, column, cell in cells)
    yield from flaw_notices(names)
    for row, column, cell in cells:
        note = cell.manifest.foreign if cell.manifest else None
        if note and (unknown := note.unknown_documents):
            said = f"{some_of([row.label])} on {some_of([column.name])}: {'; '.join(note.oddities)}"
            if unknown == note.documents:
                said += ", which is all of them: see whether its ids are those of this collection"
            yield Notice("bad" if unknown == note.documents else "warn", f"{said}.")
    led = [
        f"{row.label} on {column.name} ({measure_text(cell.value)} as ranked, "
        f"{measure_text(cell.honest)} with ties in random order: "
        f"{gain_text(cell.comparison.difference)})"
        for row, column, cell in cells
        if cell.comparison and TIES_SIGN in cell.signs
    ]
    if led:
        yield Notice(
            "warn",
            "Tied passages keep the order of the first stage, and at least half of the lead over "
            f"{some_of([section.baseline])} is due to that: {some_of(led, 2 * _NAME)}.",
        )


def _comparisons(section: Section) -> Iterator[Notice]:
    compared = [
        (row, column, cell, cell.comparison)
        for row, column, cell in section.cells()
        if cell.comparison and cell.manifest
    ]
    baseline = some_of([section.baseline])
    if len(compared) > _ONE_BY_ONE:
        decided = [than.decision for *_, than in compared]
        worse, better = decided.count("worse"), decided.count("better")
        kind: Kind = "bad" if worse else "good" if better == len(decided) else "warn"
        yield Notice(
            "note" if section.of_pipelines else kind,
            f"Of {counted(len(decided), 'comparison')} with {baseline} in "
            f"“{some_of([section.title])}”, {whole(worse)} {'is' if worse == 1 else 'are'} worse, "
            f"{whole(len(decided) - worse - better)} undecided, {whole(better)} better "
            f"(corrected p below {SIGNIFICANT}).",
        )
        return
    for row, column, cell, than in compared:
        kind, words = _DECISIONS[than.decision]
        ends = interval(than.interval.low, than.interval.high, signed=True)
        p = "not tested" if than.p_adjusted is None else f"corrected p {p_text(than.p_adjusted)}"
        shown = [f"in the worst case {gain_text(than.worst)}"] * (than.worst < than.difference)
        if not than.decision and than.p_adjusted is None:
            shown += [f"a test takes {FEWEST} queries, and differences that vary"]
        elif not than.decision and than.detectable is not None:
            shown += [f"only differences above {measure_text(than.detectable)} are detectable"]
        shown += [f"{than.left_out} left out, which only one has"] * bool(than.left_out)
        yield Notice(
            "note" if section.of_pipelines else kind,
            f"{some_of([row.label])} {words} {baseline} on {some_of([column.name])}: "
            f"{measure_text(cell.honest)}, {gain_text(than.difference)} "
            f"(95% interval {ends}, {p}){''.join(f'; {each}' for each in (*shown, *than.notes))}.",
        )


_DECISIONS: Mapping[str, tuple[Kind, str]] = {
    "": ("warn", "is not significantly better or worse than"),
    "better": ("good", "is better than"),
    "worse": ("bad", "is worse than"),
}


def some_of(names: Iterable[str], longest: int = _NAME) -> str:
    """Join names, each once; behind the first few, the number of the others."""
    unique = list(dict.fromkeys(names))
    more = len(unique) - _NAMED
    shown = ", ".join(plain(each, longest) for each in unique[:_NAMED])
    return shown if more <= 0 else f"{shown} and {whole(more)} more"


def notes(section: Section) -> tuple[str, ...]:
    """Return the sentences below the tables of a section of rankers."""
    cells = [(f"{row.label} on {column.name}", row, cell) for row, column, cell in section.cells()]
    manifests = [(row.label, x.manifest) for _, row, x in cells if row.models and x.manifest]
    metrics = [cell.metrics for _, row, cell in cells if row.models and cell.metrics]
    rankers, columns = [row for row in section.rows if row.models], section.columns
    said = []
    if rankers:
        labels_of = _grouped((row.models, row.label) for row in rankers)
        parts = (f"{names} ({', '.join(labels)})" for names, labels in labels_of.items())
        one = len(labels_of) == 1
        said.append(f"Model: {rankers[0].models}." if one else f"Models: {'; '.join(parts)}.")
        said += program_note(name for _, each in manifests for name in each.models.values())
    shares = _grouped(
        (weight, label)
        for label, each in manifests
        if isinstance(weight := each.config.get("first_stage_weight"), int | float) and weight > 0
    )
    said += [
        f"The first stage's score has a share of {weight:g} in the final ones of "
        f"{', '.join(labels)}."
        for weight, labels in shares.items()
    ]
    said += _reasons(metrics)
    times = Counter(column.data.dataset for column in columns if column.data)
    listed = {
        "Foreign runs were ranked by other programs and are measured here, to the same depth": [
            f"{name} ({note.file}, SHA-256 {note.sha256[:12]}"
            f"{''.join(f'; {each}' for each in note.oddities)})"
            for name, _, cell in cells
            if cell.manifest and (note := cell.manifest.foreign)
        ],
        "Not run here, with the paper's numbers alone, and in no comparison": [
            row.label for row in section.rows if row.not_run and set(row.not_run) != {None}
        ],
        "Fewer recruits were named than asked for": [
            f"{name} ({whole(number)} of {len(cell.values.of):,} queries)"
            for name, row, cell in cells
            if row.models and cell.metrics and (number := cell.metrics.short_teams)
        ],
        "No averages, with different depths, queries or settings": [
            name for name, count in times.items() if count > 1
        ],
        "Fewer queries or passages than in the paper, whose numbers are of another experiment": [
            column.name
            for column in columns
            if section.has_paper
            and column.data
            and column.paper_queries is not None
            and (column.data.queries < column.paper_queries or column.data.depth < paper.DEPTH)
        ],
        "Answers not of the provider whose names the models have, and not priced": sorted(
            {host for _, each in manifests if (host := other_server(each))}
        ),
    }
    said += [f"{what}: {', '.join(names)}." for what, names in listed.items() if names]
    judges = {column.judge or "people" for column in columns}
    if len(judges) > 1:
        said.append(f"No averages: judged by {' and by '.join(sorted(judges))}.")
    return (*said, _COUNTING) if rankers else tuple(said)


def _grouped(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, list[str]]:
    found: dict[_Key, dict[str, None]] = {}
    for key, name in pairs:
        found.setdefault(key, {})[name] = None
    return {key: list(names) for key, names in found.items()}


def _reasons(metrics: Sequence[Metrics]) -> Iterator[str]:
    """Yield why scores are missing and why queries failed."""

    def cut(reason: str) -> str:
        line = " ".join(reason.split())
        return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."

    lost = [each.scores for each in metrics if each.scores and each.scores.reasons]
    missing = sum((Counter(each.reasons) for each in lost), Counter[str]())
    failed = Counter(why for each in metrics for why in each.failed.values())
    _, units = ScoreCounts.unit(lost)
    for what, reasons in ((f"Why {units} are missing", missing), ("Why queries failed", failed)):
        ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        rest = sum(number for _, number in ordered[REASONS:])
        shown = [f"{cut(why)} ({whole(number)})" for why, number in ordered[:REASONS]]
        if shown:
            yield f"{what}: {'; '.join([*shown, *[f'others ({whole(rest)})'] * bool(rest)])}."
