"""Reasons for the scores of a ranking, asked for after it: a sentence and a quote each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import anyio

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, InputError, ModelError
from mcranker.llm.models import Models
from mcranker.logs import safe_logger
from mcranker.method.annotator import (
    judge_without_team,
    missing_score,
    rubric_as_text,
    rubrics_as_text,
)
from mcranker.method.ask import Rows
from mcranker.method.session import Job, Session
from mcranker.ranking import Ranking
from mcranker.replies.schemas import reasons_schema
from mcranker.replies.windows import read_reasons
from mcranker.runtime.bridge import task_group
from personas import Member, PromptSet
from personas.ranking.hit import Hit
from personas.ranking.types import Reason
from personas.ranking.usage import UsageTable
from personas.templates import Template
from personas.untrusted import Name, Own, encodable

logger = safe_logger("mcranker")

AT_ONCE = 10
"""Most passages in one call."""

LONGEST_REASON, LONGEST_QUOTE = 400, 300
"""Most characters to keep."""

_TOKENS_A_REASON = 150
_JUDGE = "search expert"  # of rankers without personas
_QUOTE_MARKS = str.maketrans(
    dict.fromkeys('"`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f', "'")
)
_AROUND_A_QUOTE = "' \t\r\n…"


class _Task(NamedTuple):
    """A judge and its scores to explain: row of the session -> the score in words."""

    column: str
    given: Mapping[int, str]
    name: str
    description: str
    members: Sequence[Member]  # whose criteria it used


@dataclass(slots=True)
class _Found:
    """Results so far: (row, judge) -> the reason; and why others did not come."""

    session: Session
    reasons: dict[tuple[int, str], Reason] = field(default_factory=dict)
    false_quotes: int = 0
    lost: list[str] = field(default_factory=list)


async def explain(
    ranking: Ranking,
    top: int,
    *,
    config: RankerConfig,
    models: Models,
    prompts: PromptSet,
    deadline: float | None = None,
) -> Ranking:
    """Ask each judge why it gave the first passages what it gave them, see `Ranker.explain`."""
    if ranking.ranker == "qg":
        raise ConfigError("a ranking by 'qg' gives no reasons: its scores are no judgements")
    if not ranking.has_texts:
        raise InputError("the ranking has no texts, and reasons are found in them; rank again")
    hits = [] if ranking.failure else ranking[:top]
    config = config.model_copy(update={"depth": None})
    job = Job(ranking.query, tuple(hit.passage for hit in hits), config, models)
    session = Session.open(job, prompts)
    rows, found = session.group_of.tolist(), _Found(session)
    tasks = []
    for column in ranking.personas or (ranking.ranker,):
        said = {row: _given(ranking, hit, column) for row, hit in zip(rows, hits, strict=True)}
        given = {row: score for row, score in said.items() if score}
        tasks.append(_Task(column, given, *_judge(ranking, column)))
    with anyio.move_on_after(deadline):
        await session.prepare_texts()
        await _ask_all(tasks, found)
    if found.lost:
        logger.warning(
            "query %r: %d reasons are missing; the first: %s",
            ranking.query.id or ranking.query.text[:80],
            len(found.lost),
            found.lost[0],
        )
    calls = UsageTable()
    calls.add_all(ranking.calls)
    calls.add_all(job.calls)
    known = ranking.calls.costs.items()
    calls.costs.update({key: cost for key, cost in known if key not in job.calls})
    spent, seconds = session.seconds.get("explain", 0.0), ranking.seconds
    more = {name: seconds.get(name, 0.0) + spent for name in ("explain", "total")}
    hashes = prompts.hashes_of(["reasons", "reasons_without_criteria"])
    by_rank: dict[int, dict[str, Reason]] = {hit.rank: {} for hit in hits}
    for task in tasks:
        for row, hit in zip(rows, hits, strict=True):
            if (row, task.column) in found.reasons:
                by_rank[hit.rank][task.column] = found.reasons[row, task.column]
    return replace(
        ranking,
        hits=tuple([replace(hit, reasons=by_rank.get(hit.rank, {})) for hit in ranking.hits]),
        false_quotes=found.false_quotes,
        calls=calls,
        seconds={**seconds, **more},
        prompt_hashes={**ranking.prompt_hashes, **hashes},
    )


def quoted(quote: str, passage: str) -> str | None:
    """Return the quoted words as they are in the passage, cut to `LONGEST_QUOTE` characters."""
    words = quote.translate(_QUOTE_MARKS).strip().removesuffix("...").removeprefix("...")
    words = words.strip(_AROUND_A_QUOTE)
    pattern = r"\s+".join(map(re.escape, words.split()))
    place = re.search(pattern, passage.translate(_QUOTE_MARKS))
    return None if place is None else _cut(passage[place.start() : place.end()], LONGEST_QUOTE)


def _given(ranking: Ranking, hit: Hit, judge: str) -> str:
    """Return the judge's score of the passage, in words; empty if it gave none."""
    if ranking.personas:
        score = hit.scores.get(judge)
        return "" if score is None else f"{score:.3g} of {ranking.top:.3g}"
    depth = ranking.config.get("depth")
    if not ranking.unscored or (isinstance(depth, int) and hit.index >= depth):
        return "" if hit.score is None else f"score {hit.score:.3g}"
    return f"rank {hit.rank} of {len(ranking.hits)}" if ranking.was_judged else ""


def _judge(ranking: Ranking, judge: str) -> tuple[str, str, Sequence[Member]]:
    """Return a judge's name and description, and the members whose criteria it used."""
    member = ranking.member(judge)
    if member is None:
        instruction = str(ranking.config.get("instruction", ""))
        team = ranking.team.members if ranking.team else judge_without_team(instruction)
        return _JUDGE, "", team
    # REBEL's only judge has the ranker's name.
    name = _JUDGE if judge.casefold() == ranking.ranker else judge
    return name, member.persona.description, (member,)


async def _ask_all(tasks: Sequence[_Task], found: _Found) -> None:
    session = found.session
    prompts = session.prompts
    places = anyio.CapacityLimiter(session.calls_at_once(session.models.scoring))

    async def ask(task: _Task, template: Template, rows: Rows) -> None:
        async with places:
            await _ask(task, template, rows, found, again=session.config.repair_attempts > 0)

    async with task_group() as group:
        for task in tasks:
            several = len(task.members) != 1
            texts = (
                rubrics_as_text(task.members, prompts)
                if several
                else rubric_as_text(task.members[0], prompts)
            )
            prompt = "reasons" if texts["criteria"] else "reasons_without_criteria"
            about = {"persona": Name(task.name), "description": task.description}
            template = prompts[prompt].bind({**about, "query": session.query.text, **texts})
            rows = list(task.given)
            for start in range(0, len(rows), AT_ONCE):
                group.start_soon(ask, task, template, tuple(rows[start : start + AT_ONCE]))


async def _ask(task: _Task, template: Template, rows: Rows, found: _Found, *, again: bool) -> None:
    """Ask one judge about some passages, and once more about those that a reply leaves out."""
    session, model = found.session, found.session.models.scoring

    async def call(part: Rows) -> Mapping[int, tuple[str, str]]:
        scores = [f"[{number}] {task.given[row]}" for number, row in enumerate(part, start=1)]
        values = {"passages": session.numbered(part), "scores": Own("\n".join(scores))}
        return await session.ask(
            model,
            template.render({**values, "count": str(len(part))}),
            lambda reply: read_reasons(reply.text, count=len(part)),
            stage="explain",
            persona=task.column,
            doc_id=session.passage(part[0]).id if len(part) == 1 else "",
            max_tokens=max(session.config.max_tokens, len(part) * _TOKENS_A_REASON),
            schema=reasons_schema(len(part)),
            passages=len(part),
            divisible=len(part) > 1,
        )

    async def take(part: Rows, said: Mapping[int, tuple[str, str]] | ModelError) -> None:
        if isinstance(said, ModelError):
            found.lost += [missing_score(said).reason] * len(part)
            return
        for place, (sentence, quote) in said.items():
            passage = session.passage(part[place])
            words = quoted(quote, f"{passage.title}\n{session.shown_text(passage)}")
            found.false_quotes += words is None
            text = _cut(encodable(sentence), LONGEST_REASON)
            found.reasons[part[place], task.column] = Reason(text, words or "")
        left = tuple(row for place, row in enumerate(part) if place not in said)
        if left and again:
            await _ask(task, template, left, found, again=False)
        else:
            found.lost += [f"{model.name} gave none"] * len(left)

    await session.forms["explain", task.column].in_parts(rows, call, take)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rpartition(" ")[0] or text[:most]
