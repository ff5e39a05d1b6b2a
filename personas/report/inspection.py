"""One ranked query as a page, as pages of a report over many, in a notebook and as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from personas.ensembles import Rule
from personas.format import exact, fixed
from personas.origins import ORIGINS, edited
from personas.ranking.hit import Hit
from personas.ranking.record import OtherRanking, RankingRecord
from personas.report.formats import cut
from personas.report.page import (
    NO_FOOTER,
    OVERVIEW,
    PageContext,
    ReportFooter,
    query_page,
    render_notebook,
    render_page,
)
from personas.report.passages import MISSING, PassageFormat
from personas.report.warnings import judgements, warnings
from personas.survey import QueryFindings

PAGE_LIMIT = 400_000
"""Characters of all passages' texts on a page; long ones are cut alike to fit."""
TEXT_LIMIT = 20_000
"""Characters of one passage's text that are shown, at most."""

Replies: TypeAlias = Mapping[tuple[str, str], Sequence[tuple[str, str]]]
NO_REPLIES: Replies = MappingProxyType({})

_OF_SCORES = (
    *("ensemble", "scoring", "scale", "labels", "missing_policy", "criteria", "recruiting"),
    "first_stage_weight",
)
_LONG_WORD = re.compile(r"\S{17}")
_CROWD = 6
_IN_SHORT = (
    *("preset", "ensemble", "scoring", "scale", "labels", "missing_policy"),
    *("criteria", "recruiting", "depth", "first_stage_weight", "prompts"),
)


_BOUNDS = {"text": 2000, "line": 1000, "name": 200, "rows": 200, "criteria": 20}
"""Characters, rows and criteria that are shown around the passages."""
_TIGHT = {"text": 300, "line": 150, "name": 80, "rows": 100, "criteria": 5}
"""For a team of more than `_MANY` members."""
_MANY = 12
_OF_HITS = (
    *("moved", "grade", "other", "suspicions", "disagreement", "score_range"),
    *("rank_of_all", "rank_without", "raised_most_by", "sunk_most_by"),
)
_ROWS = 10


def render_inspection(
    data: RankingRecord | Mapping[str, Any],
    *,
    grades: Mapping[str, int] | None = None,
    other: OtherRanking | None = None,
    replies: Replies = NO_REPLIES,
    footer: ReportFooter = NO_FOOTER,
) -> str:
    """The inspection report of one ranked query: one HTML page that needs nothing else.

    The same data give the same page, byte for byte. A passage is cut to `TEXT_LIMIT` characters,
    and further where all of them together exceed `PAGE_LIMIT`; the page shows how much was left
    out.

    Args:
        data: a ranking, or what its `to_dict` made.
        grades: document id -> judgement for this query, above 0 for relevant; without, the
            page says nothing of judgements.
        other: another ranker's places of the passages.
        replies: persona and document id -> prompts and replies behind the score, to be unfolded.
        footer: what the last line of the page says.

    Raises:
        SchemaError: `data` is something else.
    """
    record = RankingRecord.of(data).beside(grades=grades, other=other)
    values = inspection_values(record, footer=footer) | {"replies": replies}
    return render_page("inspection.html", **values)


def inspection_page(record: RankingRecord, around: PageContext) -> str:
    """The page of one query within a report."""
    return render_page("inspection.html", **inspection_values(record, around))


def inspection_values(
    inspection: RankingRecord,
    around: PageContext | None = None,
    footer: ReportFooter = NO_FOOTER,
) -> dict[str, Any]:
    """Values that ``inspection.html`` and ``inspection_main.html`` show."""
    form = PassageFormat(inspection)
    team = inspection.team.members if inspection.team else ()
    return {
        "inspection": inspection,
        "around": around,
        "footer": around.footer if around else footer,
        "links": _links(around) if around else {},
        "form": form,
        "judgements": judgements(inspection),
        "columns": _columns(inspection, form),
        "crowd": len(inspection.personas) > _CROWD,
        "warnings": warnings(inspection),
        "imputed": any(hit.imputed for hit in inspection.hits),
        "last_rank": inspection.last_sure_rank,
        "members": team,
        "origins": ORIGINS,
        "edited": edited,
        "in_short": _in_short(inspection),
        "ensemble": _ensemble(inspection),
        "judged": len(inspection.judged),
        "relevant": any(hit.relevance is not None for hit in inspection.hits),
        "missing": [
            (hit.rank, name, why) for hit in inspection.hits for name, why in hit.missing.items()
        ],
        "missing_mark": MISSING,
        "flag": "\N{BLACK FLAG}",
        "suspicious": any(hit.suspicions for hit in inspection.hits),
        "models": _models(inspection),
        "replies": NO_REPLIES,
        "bounds": _TIGHT if len(team) > _MANY else _BOUNDS,
        "hits": inspection.hits,
        "text_limit": fair_limit([len(hit.text) for hit in inspection.hits]),
    }


def _links(around: PageContext) -> dict[str, str]:
    """Addresses of the pages around this one, from its folder."""
    found = {"overview": OVERVIEW, "queries": f"{OVERVIEW}#queries"}
    if around.place > 1:
        found["previous"] = query_page(around.place - 1)
    if around.place < around.queries:
        found["next"] = query_page(around.place + 1)
    return {name: f"../{path}" for name, path in found.items()}


def _columns(inspection: RankingRecord, form: PassageFormat) -> list[dict[str, Any]]:
    """A column for each persona, with the mean of its scores; a long word must be broken."""
    columns = []
    for name in inspection.personas:
        scores = [hit.scores.get(name) for hit in inspection.hits]
        known = [score for score in scores if score is not None]
        mean = fixed(math.fsum(known) / len(known), max(2, form.score_places)) if known else MISSING
        columns.append({"name": name, "mean": mean, "long_word": _LONG_WORD.search(name)})
    return columns


def _in_short(inspection: RankingRecord) -> list[tuple[str, Any]]:
    """The settings that say how the ranking came about."""
    left_out = _OF_SCORES if inspection.comparisons is not None else ()
    return [
        (name.replace("_", " "), inspection.config[name])
        for name in _IN_SHORT
        if name not in left_out and inspection.config.get(name) not in (None, "", [], (), 0.0)
    ]


def _ensemble(inspection: RankingRecord) -> str:
    """Describe the final score in a sentence; empty where one persona gave it."""
    if len(inspection.personas) < 2:
        return ""
    if inspection.ensemble is None:
        name = cut(str(inspection.config["ensemble"]), 80)
        return f"That of the ensemble “{name}”, which is not installed here."
    said = inspection.ensemble.description
    if inspection.rule.weights:
        said += " Each persona’s counts by its weight."  # noqa: RUF001
    weight = Rule.of(inspection.config).first_stage_weight
    if said and weight:
        return f"{said} The first stage’s score counts {exact(100 * weight)}% in it."  # noqa: RUF001
    return said


def _models(inspection: RankingRecord) -> list[tuple[str, str]]:
    models = inspection.models
    if len(set(models.values())) == 1:
        return [("model", name) for name in set(models.values())]
    return [(f"{cut(role, 40)} model", name) for role, name in models.items()]


def fair_limit(lengths: Sequence[int]) -> int:
    """The longest limit up to `TEXT_LIMIT` that keeps all texts together in `PAGE_LIMIT`."""
    room = PAGE_LIMIT
    for place, length in enumerate(sorted(min(TEXT_LIMIT, each) for each in lengths)):
        share = room // (len(lengths) - place)
        if length > share:
            return share
        room -= length
    return TEXT_LIMIT


def inspection_dict(inspection: RankingRecord, hits: Sequence[Hit]) -> dict[str, Any]:
    """The ranking as it is stored, with all that can be worked out of it, as plain values."""
    findings = QueryFindings.of(1, inspection)
    figures, other = findings.figures, inspection.other
    ndcg = {"first_stage": figures.first_stage_ndcg, "other": figures.other_ndcg}
    found: dict[str, Any] = to_jsonable_python(
        {
            **inspection.to_dict(),
            "passages": len(inspection.hits),
            "hits": [
                {**hit.to_dict(), **{name: getattr(hit, name) for name in _OF_HITS}} for hit in hits
            ],
            "other": None if other is None else {"name": other.name, "top": other.top},
            "agreement": {
                "kendall_tau": figures.tau,
                "krippendorff_alpha": figures.alpha,
                "disagreement": figures.disagreement,
            },
            "ndcg@10": {"ranking": figures.ndcg, **ndcg, "without": findings.without},
            "leave_one_out_exact": inspection.leave_one_out_exact,
            "warnings": warnings(inspection),
        }
    )
    return found


def ranking_html(ranking: RankingRecord) -> str:
    """The query, warnings and notes, and the first ten passages with their scores."""
    form, hits = PassageFormat(ranking), ranking[:_ROWS]
    shown = [(hit, cells, label) for hit, label, cells, *_ in form.shown(hits, 0)]
    return render_notebook(ranking=ranking, warnings=warnings(ranking), rows=shown)
