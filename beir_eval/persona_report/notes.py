"""What a report says about a run besides what was found in its rankings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beir_eval.experiment.run_folder import DataManifest
from beir_eval.persona_report.sources import Source
from beir_eval.report.notes import conditions, program_note

_SETTINGS = (
    "preset",
    "team_size",
    "recruiting",
    "criteria",
    "scoring",
    "scale",
    "labels",
    "ensemble",
    "missing",
    "top_k",
    "depth",
    "first_stage_weight",
    "prompts",
)
_OF_TEAMS = frozenset({"team_size", "recruiting", "criteria", "ensemble"})


def dataset_line(data: DataManifest) -> str:
    """What was ranked: ``scifact: 20 of 300 queries, top 100 by BM25 (bm25s, k1 0.9, b 0.4)``."""
    split = "" if data.split == "test" else f" ({data.split})"
    return f"{data.dataset}{split}: {conditions(data, None)}"


def run_settings(config: Mapping[str, Any], *, team: bool) -> dict[str, str]:
    """The choices that shape scores, as text; those that are empty are left out."""
    from personas.report.formats import value

    return {
        name.replace("_", " "): value(config[name])
        for name in _SETTINGS
        if config.get(name) not in (None, "", [], (), 0.0)
        and (team or name not in _OF_TEAMS)
        and not (name == "scale" and config.get("labels"))
    }


def run_notes(
    source: Source, *, ranked: int, queries: int, unjudged: int, other_lacks: int, torn: bool
) -> tuple[str, ...]:
    """What a reader of the report must know, a sentence or two each.

    Args:
        source: the run.
        ranked: queries with a ranking.
        queries: of the data set.
        unjudged: ranked queries without judgements.
        other_lacks: ranked queries that the run compared with has not ranked.
        torn: whether the last ranking was not written to its end.
    """
    manifest, notes = source.run.manifest, []
    if not manifest.finished:
        last = " The last ranking was not written to its end and is left out." if torn else ""
        notes.append(
            f"The run is not finished: {ranked:,} of {queries:,} queries have been ranked, and "
            f"this report is about them alone.{last}"
        )
    if unjudged:
        notes.append(
            f"{unjudged:,} of {ranked:,} ranked queries have no judgements; NDCG@10 leaves them "
            "out."
        )
    if source.other is not None and other_lacks:
        notes.append(
            f"{source.other.manifest.label} has not ranked {other_lacks:,} of these queries; "
            "they count 0 for it."
        )
    if manifest.weak:
        notes.append(
            "The scoring model is marked weak: other defaults than the paper's were in effect."
        )
    return (*notes, *program_note(manifest.models.values()))
