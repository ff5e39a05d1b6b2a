"""Reasons for the scores of a ranking, asked for after it: a sentence and a quote each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import anyio

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, InputError, ModelError
from mcranker.llm.chat import Answer, ChatReply, Judge, Question, State
from mcranker.llm.models import Models
from mcranker.logs import safe_logger
from mcranker.method.annotator import missing_score
from mcranker.method.rubric_text import judge_without_team, rubric_as_text, rubrics_as_text
from mcranker.method.session import Job, Session
from mcranker.ranking import Ranking
from mcranker.replies.judge_health import Rows
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.schemas import reasons_schema
from mcranker.replies.windows import read_reasons
from mcranker.runtime.bridge import task_group
from personas import Member, PromptSet
from personas.ranking.hit import Hit
from personas.ranking.types import Passage, Reason
from personas.ranking.usage import UsageTable
from personas.sanitize import encodable
from personas.templates import Template
from personas.untrusted import Name, Own

logger = safe_logger("mcranker")

AT_ONCE = 10
"""Most passages in one call."""

LONGEST_REASON, LONGEST_QUOTE = 400, 300
"""Most characters to keep."""

_TOKENS_A_REASON = 150
_MOST_SENTENCES = 50  # of a passage, among which the nearest is looked for
_JUDGE = "search expert"  # of rankers without personas
_NEAR = "How near is it to the query?"
# A sentence ends with a mark (and closing quotation marks), a blank line or before a list item.
_SENTENCE = re.compile(
    r"\S.*?(?:[.!?][\"')\]\u00bb\u201d\u2019]*(?=\s)|[\u3002\uff01\uff1f]"
    r"|(?=\n[ \t\r]{0,40}(?:\n|[-*\u2022]))|\Z)",
    re.DOTALL,
)
_QUOTE_MARKS = str.maketrans(
    dict.fromkeys('"`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f', "'")
)
_AROUND_A_QUOTE = "' \t\r\n…"


@dataclass(slots=True)
class _Found:
    """Results so far: (row, judge) -> the reason; and why others did not come."""

    reasons: dict[tuple[int, str], Reason] = field(default_factory=dict)
    false_quotes: int = 0
    lost: list[str] = field(default_factory=list)


class _Task(NamedTuple):
    """A judge and its scores to explain: row of the session -> the score in words."""

    name: str
    given: Mapping[int, str]


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
    capabilities = models.scoring.capabilities
    if ranking.ranker == "qg":
        raise ConfigError("a ranking by 'qg' gives no reasons: its scores are no judgements")
    if not ranking.has_texts:
        raise InputError("the ranking has no texts, and reasons are found in them; rank again")
    hits = [] if ranking.failure else ranking[:top]
    config = config.model_copy(update={"depth": None})
    job = Job(ranking.query, tuple(hit.passage for hit in hits), config, models)
    session = Session.open(job, prompts)
    rows = session.group_of.tolist()
    tasks = []
    for name in ranking.judges or (ranking.ranker,):
        given = {row: _given(ranking, hit, name) for row, hit in zip(rows, hits, strict=True)}
        tasks.append(_Task(name, {row: said for row, said in given.items() if said}))
    found = _Found()
    with anyio.move_on_after(deadline):
        await session.prepare_texts()
        if capabilities.prompts:
            await _ask_all(ranking, session, tasks, found)
        else:
            await _nearest_sentences(ranking, session, tasks, found)
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
    seconds = session.seconds.get("explain", 0.0)
    hashes = prompts.hashes_of(["reasons", "reasons_without_criteria"])
    reasons = {
        hit.rank: {
            task.name: found.reasons[row, task.name]
            for task in tasks
            if (row, task.name) in found.reasons
        }
        for row, hit in zip(rows, hits, strict=True)
    }
    return replace(
        ranking,
        hits=tuple([replace(hit, reasons=reasons.get(hit.rank, {})) for hit in ranking.hits]),
        false_quotes=found.false_quotes,
        calls=calls,
        seconds={
            **ranking.seconds,
            "explain": ranking.seconds.get("explain", 0.0) + seconds,
            "total": ranking.seconds.get("total", 0.0) + seconds,
        },
        prompt_hashes={**ranking.prompt_hashes, **(hashes if capabilities.prompts else {})},
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
    if ranking.judges:
        score, rank = hit.scores.get(judge), hit.ranks.get(judge)
        if rank is not None:
            return f"rank {rank} of {len(ranking.hits)}"
        return "" if score is None else f"{score:.3g} of {ranking.top:.3g}"
    depth = ranking.config.get("depth")
    if not ranking.unscored or (isinstance(depth, int) and hit.index >= depth):
        return "" if hit.score is None else f"score {hit.score:.3g}"
    return f"rank {hit.rank} of {len(ranking.hits)}" if ranking.was_judged else ""


def _members(ranking: Ranking, judge: str) -> tuple[str, str, Sequence[Member]]:
    """Return a judge's name and description, and the members whose criteria it used."""
    member = ranking.member(judge)
    if member is None:
        instruction = str(ranking.config.get("instruction", ""))
        team = ranking.team.members if ranking.team else judge_without_team(instruction)
        return _JUDGE, "", team
    # REBEL's only judge has the ranker's name.
    name = _JUDGE if judge.casefold() == ranking.ranker else judge
    return name, member.persona.description, (member,)


async def _ask_all(
    ranking: Ranking, session: Session, tasks: Sequence[_Task], found: _Found
) -> None:
    places = anyio.CapacityLimiter(session.calls_at_once(session.models.scoring))

    async def ask(task: _Task, template: Template, rows: Rows) -> None:
        async with places:
            await _ask(
                session, task, template, rows, found, again=session.config.repair_attempts > 0
            )

    async with task_group() as group:
        for task in tasks:
            name, description, members = _members(ranking, task.name)
            texts = (
                rubric_as_text(members[0], session.prompts)
                if len(members) == 1
                else rubrics_as_text(members, session.prompts)
            )
            prompt = "reasons" if texts["criteria"] else "reasons_without_criteria"
            about = {"persona": Name(name), "description": description, "query": session.query.text}
            template = session.prompts[prompt].bind({**about, **texts})
            rows = list(task.given)
            for start in range(0, len(rows), AT_ONCE):
                group.start_soon(ask, task, template, tuple(rows[start : start + AT_ONCE]))


async def _ask(
    session: Session, task: _Task, template: Template, rows: Rows, found: _Found, *, again: bool
) -> None:
    """Ask one judge about some passages, and once more about those that a reply leaves out."""
    name = session.models.scoring.name

    async def call(part: Rows) -> Mapping[int, tuple[str, str]]:
        scores = [f"[{number}] {task.given[row]}" for number, row in enumerate(part, start=1)]
        values = {"passages": session.numbered(part), "scores": Own("\n".join(scores))}
        return await session.ask(
            session.models.scoring,
            template.render({**values, "count": str(len(part))}),
            lambda reply: read_reasons(reply.text, count=len(part)),
            stage="explain",
            persona=task.name,
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
            found.reasons[part[place], task.name] = Reason(text, words or "")
        left = tuple(row for place, row in enumerate(part) if place not in said)
        if left and again:
            await _ask(session, task, template, left, found, again=False)
        else:
            found.lost += [f"{name} gave none"] * len(left)

    await session.forms["explain", task.name].in_parts(rows, call, take)


async def _nearest_sentences(
    ranking: Ranking, session: Session, tasks: Sequence[_Task], found: _Found
) -> None:
    """Take each passage's sentence nearest to the query for the judge; one call has several."""
    judges = {}
    for task in tasks:
        name, description, members = _members(ranking, task.name)
        listed = (each for member in members if member.rubric for each in member.rubric.criteria)
        criteria = tuple((each.name, each.description, float(each.weight)) for each in listed)
        judges[task.name] = Judge("" if name == _JUDGE else name, description, criteria)
    most = session.models.scoring.capabilities.max_questions // (_MOST_SENTENCES * len(tasks))
    at_once = max(1, min(AT_ONCE, most))
    rows = range(len(session.distinct))
    for start in range(0, len(rows), at_once):
        sentences = {
            f"passage_{row}_{place}": (row, sentence)
            for row in rows[start : start + at_once]
            for place, sentence in enumerate(_sentences(session, session.passage(row)))
        }
        asked = [
            (row, task.name, sentence, f"{name}_judge_{column}", name)
            for name, (row, sentence) in sentences.items()
            for column, task in enumerate(tasks)
            if row in task.given
        ]
        if not asked:
            continue

        def read(reply: ChatReply, count: int = len(asked)) -> Sequence[Answer]:
            if reply.answers is None or len(reply.answers) != count:
                raise Unreadable(f"it does not hold {count} answers.")
            return reply.answers

        answers = await session.ask(
            session.models.scoring,
            session.prompts["typed_task"].render({}),
            read,
            stage="explain",
            max_tokens=session.config.max_score_tokens,
            questions=tuple(
                Question(name, _NEAR, kind="yes_no", passage=passage, judge=judges[judge])
                for _, judge, _, name, passage in asked
            ),
            state=State(session.clean_query, {name: text for name, (_, text) in sentences.items()}),
        )
        best: dict[tuple[int, str], tuple[float, str]] = {}
        for (row, judge, sentence, *_), answer in zip(asked, answers, strict=True):
            near = -1.0 if answer.value is None else answer.value
            if near > best.get((row, judge), (-1.0, ""))[0]:
                best[row, judge] = near, sentence
        for key, (_, sentence) in best.items():
            found.reasons[key] = _by_words(session.query.text, sentence)


def _sentences(session: Session, passage: Passage) -> list[str]:
    listed = [each.group().rstrip() for each in _SENTENCE.finditer(session.shown_text(passage))]
    return listed[:_MOST_SENTENCES] or [passage.title]


def _by_words(query: str, sentence: str) -> Reason:
    from mcranker.inputs.tokens import tokenize, words

    there = set(tokenize(sentence))
    known = dict.fromkeys(word.casefold() for word in words(query) if there & set(tokenize(word)))
    listed = (
        f"Words of the query in it: {', '.join(known)}" if known else "It has none of its words"
    )
    text = _cut(f"The sentence nearest to the query. {listed}.", LONGEST_REASON)
    return Reason(text, _cut(sentence, LONGEST_QUOTE), "words")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rpartition(" ")[0] or text[:most]
