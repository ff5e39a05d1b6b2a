"""What stands around the tables: how much was ranked, by which models, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beir_eval.experiment.foreign import oddities
from beir_eval.experiment.labels import models_of, other_server
from beir_eval.experiment.run_folder import DataManifest, Metrics, RunManifest, ScoreCounts
from beir_eval.measures import paper
from beir_eval.measures.metrics import cutoff_of
from beir_eval.report.model import Column, Row, TableCell
from beir_eval.report.numbers import (
    BOUNDS_SIGN,
    MISSING_SIGN,
    TIES_SIGN,
    gain_text,
    measure_text,
    rate,
)
from personas.words import whole

_COUNTING = (
    "Calls, tokens, cost and model time are those of each run by itself: an answer that several "
    "runs share through the ledger counts in each. Model time adds up calls that ran side by side; "
    "of the embedded encoder and cross-encoders it is the time they computed."
)
_SHOWN_HASH = 12
REASONS = 3
"""Reasons told apart, the most frequent ones."""
LONGEST_REASON = 160
"""Characters of a reason, at most."""


MOST_MISSING = 0.01
"""Share of missing scores up to which a run is compared like any other."""
FEW_QUERIES = 20
"""Below it, a note says that intervals and tests rest on few queries."""


def missing_share(metrics: Metrics) -> float:
    """Missing scores or comparisons over those asked for, 0 to 1."""
    scores = metrics.scores
    return scores.missing / scores.asked if scores and scores.asked else 0.0


def bounded_at(metrics: Metrics, manifest: RunManifest | None) -> int | None:
    """The ``top_k`` of a run, if scores were left out because of it; a fusion's do not show."""
    if manifest is None or not (
        (metrics.scores and metrics.scores.skipped) or manifest.ranker == "fused"
    ):
        return None
    top_k = manifest.config.get("top_k")
    return top_k if isinstance(top_k, int) else None


def flaws_of(metrics: Metrics, manifest: RunManifest | None, measure: str) -> str:
    """The signs of what makes a value none of the ranker's: `MISSING_SIGN`, `BOUNDS_SIGN`."""
    signs = MISSING_SIGN if missing_share(metrics) > MOST_MISSING else ""
    top_k, cutoff = bounded_at(metrics, manifest), cutoff_of(measure)
    if top_k is not None and (cutoff is None or top_k < cutoff):
        signs += BOUNDS_SIGN
    return signs


def measured_to(measure: str, depths: Sequence[int]) -> str:
    """The measure as tables are headed, with the depth where fewer passages were ranked."""
    cutoff = cutoff_of(measure)
    short = sorted({depth for depth in depths if cutoff and depth < cutoff})
    if not short:
        return measure
    if len(set(depths)) > 1:
        return f"{measure} (fewer passages ranked: {', '.join(map(str, short))})"
    return f"{measure} of the top {short[0]}"


def conditions(data: DataManifest, paper_queries: int | None) -> str:
    """How much of a data set was ranked, and how much the paper ranked."""
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
    """The models of a row, given its manifests by column: role by role where they differ."""
    columns_of: dict[str, list[str]] = {}
    for column, manifest in manifests.items():
        columns_of.setdefault(models_of(manifest), []).append(column)
    if len(columns_of) == 1:
        return next(iter(columns_of))
    return "; ".join(f"{', '.join(columns)}: {names}" for names, columns in columns_of.items())


def notes(
    columns: Sequence[Column],
    rows: Sequence[Row],
    baseline: str,
) -> tuple[str, ...]:
    """Sentences below the tables of a section, in the order of their weight."""
    rankers = [row for row in rows if row.models]
    said = []
    if rankers:
        said.append(_models_note(rankers))
        manifests = (cell.manifest for row in rankers for cell in row.cells if cell)
        said += program_note(name for each in manifests if each for name in each.models.values())
        said += _weak_notes(rankers)
        said += _share_notes(rankers)
    said += _foreign_note(columns, rows)
    said += _paper_rows_note(rows)
    said += _lost_notes(rankers)
    said += _missing_note(columns, rankers)
    said += _bounds_note(columns, rankers)
    said += _teams_note(columns, rankers)
    said += _ties_note(columns, rankers, baseline)
    said += _averages_note(columns)
    if any(row.paper(place) is not None for row in rows for place in range(len(columns))):
        said += _subset_note(columns)
    if rankers:
        said += _servers_note(rankers)
        said.append(_COUNTING)
    return tuple(said)


def program_note(models: Iterable[str]) -> list[str]:
    """That some of these models are none, in a sentence; nothing if all are models."""
    names = sorted({name for name in models if name.startswith(("scripted:", "simulated:"))})
    said = "answers by a program: these numbers say nothing about any language model."
    return [f"{', '.join(names)} {said}"] if names else []


def paper_note(source: str) -> str:
    """What the columns with the paper's numbers are."""
    return (
        f"Columns marked 'paper' hold the paper's numbers, not ours, divided by 100: {source}. "
        "Averages of the paper's numbers are over the data sets of the table."
    )


def _models_note(rankers: Sequence[Row]) -> str:
    labels_of: dict[str, list[str]] = {}
    for row in rankers:
        labels_of.setdefault(row.models, []).append(row.label)
    if len(labels_of) == 1:
        return f"Model: {next(iter(labels_of))}."
    parts = (f"{names} ({', '.join(labels)})" for names, labels in labels_of.items())
    return f"Models: {'; '.join(parts)}."


def _foreign_note(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    files = [
        f"{row.label} on {column.name} ({note.file}, SHA-256 {note.sha256[:_SHOWN_HASH]}"
        f"{''.join(f'; {each}' for each in oddities(note))})"
        for row, column, cell in _each(columns, rows)
        if cell.manifest and (note := cell.manifest.foreign)
    ]
    if not files:
        return []
    return [
        "Foreign runs were ranked by other programs and are measured here, to the same depth: "
        f"{', '.join(files)}."
    ]


def _paper_rows_note(rows: Sequence[Row]) -> list[str]:
    labels = [
        row.label for row in rows if row.not_run and any(each is not None for each in row.not_run)
    ]
    if not labels:
        return []
    return [
        f"Not run here, with the paper's numbers alone, and in no comparison: {', '.join(labels)}."
    ]


def _weak_notes(rankers: Sequence[Row]) -> list[str]:
    labels_of: dict[str, list[str]] = {}
    for row in rankers:
        for cell in row.cells:
            if cell and cell.manifest and cell.manifest.weak_judge == "small":
                labels = labels_of.setdefault(_weak_settings(cell.manifest.config), [])
                if row.label not in labels:
                    labels.append(row.label)
    return [
        f"The scoring model is marked weak ({', '.join(labels)}); "
        + (
            f"in effect for it instead of the paper's: {settings}."
            if settings
            else "none of the defaults for such models is in effect."
        )
        for settings, labels in labels_of.items()
    ]


def _share_notes(rankers: Sequence[Row]) -> list[str]:
    labels_of: dict[float, list[str]] = {}
    for row in rankers:
        for cell in row.cells:
            weight = cell and cell.manifest and cell.manifest.config.get("first_stage_weight")
            if isinstance(weight, int | float) and weight > 0:
                labels = labels_of.setdefault(weight, [])
                if row.label not in labels:
                    labels.append(row.label)
    return [
        f"The first stage's score has a share of {weight:g} in the final ones of "
        f"{', '.join(labels)}."
        for weight, labels in labels_of.items()
    ]


def _weak_settings(config: Mapping[str, object]) -> str:
    from mcranker.config import WEAK_MODEL_DEFAULTS

    in_effect = []
    for name, value in WEAK_MODEL_DEFAULTS.items():
        plain = list(value) if isinstance(value, tuple) else value
        found = config.get(name)
        if (list(found) if isinstance(found, tuple) else found) == plain:
            shown = "/".join(plain) if isinstance(plain, list) else plain
            in_effect.append(f"{name.replace('_', ' ')} {shown}")
    return ", ".join(in_effect)


def _lost_notes(rankers: Sequence[Row]) -> list[str]:
    missing: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    lost: list[ScoreCounts] = []
    for row in rankers:
        for cell in row.cells:
            if cell and cell.metrics.scores and cell.metrics.scores.reasons:
                lost.append(cell.metrics.scores)
                missing.update(cell.metrics.scores.reasons)
            if cell:
                failed.update(cell.metrics.failed.values())
    said = []
    if missing:
        _, units = ScoreCounts.unit(lost)
        said.append(f"Why {units} are missing: {_most_common(missing)}.")
    if failed:
        said.append(f"Why queries failed: {_most_common(failed)}.")
    return said


def _most_common(reasons: Counter[str]) -> str:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{_cut(reason)} ({whole(number)})" for reason, number in ordered[:REASONS]]
    rest = sum(number for _, number in ordered[REASONS:])
    return "; ".join([*shown, *([f"others ({whole(rest)})"] if rest else [])])


def _cut(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."


def _missing_note(columns: Sequence[Column], rankers: Sequence[Row]) -> list[str]:
    lost = [
        (f"{row.label} on {column.name} ({rate(scores.missing, scores.asked)})", scores)
        for row, column, cell in _each(columns, rankers)
        if cell.missing > MOST_MISSING and (scores := cell.metrics.scores)
    ]
    if not lost:
        return []
    _, units = ScoreCounts.unit(scores for _, scores in lost)
    return [
        f"More than 1% of the {units} are missing: {', '.join(label for label, _ in lost)}. What "
        "stood in for them counts in the values; such rows are never the best, and no comparison "
        "with them is marked."
    ]


def _bounds_note(columns: Sequence[Column], rankers: Sequence[Row]) -> list[str]:
    bounded = [
        f"{row.label} on {column.name}"
        for row, column, cell in _each(columns, rankers)
        if BOUNDS_SIGN in cell.signs
    ]
    if not bounded:
        return []
    return [
        f"top_k is below the measure's cutoff: {', '.join(bounded)}. Ranks below top_k are by "
        "upper bounds of scores that were not asked for, so these values are not the rankers'; "
        "such rows are never the best, and no comparison with them is marked."
    ]


def _teams_note(columns: Sequence[Column], rankers: Sequence[Row]) -> list[str]:
    short = [
        f"{row.label} on {column.name} ({whole(number)} of {whole(cell.queries)} queries)"
        for row, column, cell in _each(columns, rankers)
        if (number := cell.metrics.short_teams)
    ]
    return [f"Fewer recruits were named than asked for: {', '.join(short)}."] if short else []


def _ties_note(columns: Sequence[Column], rankers: Sequence[Row], baseline: str) -> list[str]:
    led = [
        f"{row.label} on {column.name}, {measure_text(cell.value)} as ranked and "
        f"{measure_text(cell.honest)} by lot, {gain_text(than.difference)} by lot "
        f"against {baseline}"
        for row, column, cell in _each(columns, rankers)
        if TIES_SIGN in cell.signs and (than := cell.comparison)
    ]
    said = []
    if led:
        said.append(
            "Tied passages keep the order of the first stage, and at least half of the lead over "
            f"the baseline is due to that here, the baseline's ties included: {'; '.join(led)}."
        )
    unknown = [
        f"{row.label} on {column.name}"
        for row, column, cell in _each(columns, rankers)
        if cell.by_lot is None
    ]
    if unknown:
        said.append(
            "Ties drawn by lot are not known, because the rankings are not in the folder; values, "
            f"intervals and tests are as ranked: {', '.join(unknown)}."
        )
    return said


def _averages_note(columns: Sequence[Column]) -> list[str]:
    times = Counter(column.data.dataset for column in columns)
    several = [name for name, count in times.items() if count > 1]
    if not several:
        return []
    return [
        f"No averages: {', '.join(several)} stands here with different depths, queries or settings."
    ]


def _servers_note(rankers: Sequence[Row]) -> list[str]:
    manifests = (cell.manifest for row in rankers for cell in row.cells if cell)
    hosts = sorted({host for each in manifests if each and (host := other_server(each))})
    if not hosts:
        return []
    return [
        f"Answers came from {', '.join(hosts)}, and not from the provider whose names the models "
        "have; they are not priced unless the report is told to use the provider's prices."
    ]


def _each(
    columns: Sequence[Column], rows: Sequence[Row]
) -> Iterator[tuple[Row, Column, TableCell]]:
    for row in rows:
        for column, cell in zip(columns, row.cells, strict=True):
            if cell:
                yield row, column, cell


def _subset_note(columns: Sequence[Column]) -> list[str]:
    smaller = [
        column.name
        for column in columns
        if column.paper_queries is not None
        and (column.data.queries < column.paper_queries or column.data.depth < paper.DEPTH)
    ]
    if not smaller:
        return []
    return [
        f"Fewer queries or passages than in the paper: {', '.join(smaller)}. There, its numbers "
        "are of another experiment, and stand beside ours for orientation only."
    ]
