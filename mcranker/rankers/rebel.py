"""REBEL: windows of passages scored by relevance and further properties, in one call each."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, FormNotKept, ModelError, ReplyError
from mcranker.events import RubricWritten
from mcranker.llm.chat import ChatReply
from mcranker.method.annotator import Scores, missing_score
from mcranker.method.ask import Rows
from mcranker.method.ensembler import score_by_judge
from mcranker.method.session import Session
from mcranker.rankers.judge import LONGEST_QUERY, NO_TEAM, PointwiseRanker, demand, refuse
from mcranker.ranking import Ranking
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.schemas import RELEVANCE_SCHEMA, properties_schema, window_schema
from mcranker.replies.windows import (
    LEFT_OUT,
    TOP_RELEVANCE,
    WEIGHT,
    PassageScores,
    Properties,
    Property,
    ReadWindow,
    property_keys,
    read_properties,
    read_window,
)
from mcranker.runtime.actor import Actor
from personas import Member, Persona, PromptError, PromptSet, Team
from personas.ranking.types import Score, WindowCounts
from personas.untrusted import Name, Own

JUDGE = "REBEL"
MOST_IN_A_WINDOW = 100
RETURNED = 3
"""Passages that are returned without ``top_n``, as in the authors' set-up."""

_TOKENS_A_SCORE = 8  # of a reply, with its key
_OF_OTHERS: Mapping[str, Any] = {
    "scoring": "integer",
    "scale": 10,
    "labels": (),
    "questions": None,
    "passages_per_call": None,
    "ensemble": "sum",
}
_INFERS: Mapping[str, Any] = {"criteria": "query", "recruiting": "library"}
_ABOUT = "Looks for passages that help to write a good answer, by relevance and what else counts."


class RebelConfig(RankerConfig):
    """Options of `RebelRanker`."""

    variant: Literal["one_turn", "two_turn", "two_turn_relevance"] = "one_turn"
    """Where the properties come from."""
    window: Annotated[int, Field(ge=1, le=MOST_IN_A_WINDOW)] = 10
    """Passages that one call scores; consecutive ones in first-stage order."""
    min_relevance_score: Annotated[int, Field(ge=0, le=TOP_RELEVANCE)] = 3
    """Relevance below which a passage is dropped, 0 to 10; 0 drops none."""
    infer_weights: bool = False
    """With two_turn, the first call gives the properties' weights as well."""

    @model_validator(mode="after")
    def _infers(self) -> Self:
        if self.infer_weights and self.variant != "two_turn":
            raise ValueError(
                f'infer_weights goes with variant="two_turn"; variant={self.variant!r}'
            )
        return self


class RebelRanker(PointwiseRanker):
    """Scores passages, several in one call, by relevance and by further properties.

    A passage's final score is its relevance, 0 to 10, plus the sum of weight · score, 0 to 5, over
    the properties. Passages whose relevance is below `min_relevance_score` get none and are left
    out: the ranking's hits are the others, and `Ranking.dropped` has them.
    "Relevance Isn't All You Need: Scaling RAG Systems With Inference-Time Compute Via
    Multi-Criteria Reranking" (LeVine and Varjavand 2025, arXiv 2504.07104), section 2.

    | variant | properties | calls |
    |---|---|---|
    | ``"one_turn"`` | depth, diversity, clarity, authoritativeness, recency; 0.5 each | w |
    | ``"two_turn"`` | those that a first call infers from the query; 0.5 each | 1 + w |
    | ``"two_turn_relevance"`` | none; the first call says what relevance means | 1 + w |

    w is the number of windows, ceil(n / window) for n distinct passages.

    >>> RebelRanker(model="openai:gpt-5-mini")                           # the first 3 of all
    >>> RebelRanker(model="openai:gpt-5-mini", variant="two_turn", top_n=None)

    Its options are those of `RebelConfig` and `Ranker`. `criteria_model` makes the first call of
    two. ``top_n`` is 3 unless given; None returns all.

    Raises:
        ConfigError, ModelError, PersonasError: as `Ranker`.
    """

    name: ClassVar[str] = "rebel"
    config: RebelConfig
    config_class = RebelConfig
    roles = ("criteria", "scoring")
    prompt = "rebel"

    def _prepare(self, config: Any) -> Any:
        refuse(
            config,
            _OF_OTHERS,
            "has no meaning for ranker='rebel', which scores relevance from 0 to 10 and properties "
            "from 0 to 5 and adds them up; leave it out, or use another ranker",
        )
        self.variant, one_turn = config.variant, config.variant == "one_turn"
        self._no_team = NO_TEAM if one_turn else _INFERS
        if one_turn and self.given_roles["criteria"] is not None:
            raise ConfigError(
                'criteria_model infers properties, and variant="one_turn" has its own; leave it '
                'out, or use variant="two_turn"'
            )
        own: dict[str, Any] = {"scoring": "integer"}
        if "top_n" not in config.model_fields_set:
            own["top_n"] = RETURNED
        config = super()._prepare(config.replaced(own))
        self._fixed = _fixed_properties(self.prompts)
        return config

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        by_properties = ("rebel", "rebel_property")
        used = {
            "one_turn": (*by_properties, "rebel_criteria", "rebel_rubric"),
            "two_turn": (self._infers, *by_properties),
            "two_turn_relevance": ("rebel_infer_relevance", "rebel_relevance"),
        }
        passage = self.prompts.comparative_hashes("compared_passage")
        return {**self.prompts.hashes_of(used[self.variant]), **passage}

    def _check_models(self) -> None:
        does = "rebel scores passages in one; name a model that does with model="
        demand(self.models.scoring, "prompts", f"answers no prompts, and {does}")
        super()._check_models()

    async def _run(self, session: Session) -> Ranking:
        properties: Properties | None = None
        with session.until_deadline():
            properties = await self._properties(session)
        if properties is None:
            return dataclasses.replace(self.ranking_by_order(session.job), partial=True)
        rubric = properties.rubric()
        member = Member(persona=Persona(name=JUDGE, description=_ABOUT), rubric=rubric)
        await session.emit(RubricWritten(session.query.id, JUDGE, rubric))
        judges: list[WindowJudge] = []

        def make(ensembler: Actor[Any]) -> WindowJudge:
            judges.append(WindowJudge(properties, self, session, ensembler))
            return judges[0]

        scored = await score_by_judge(session, JUDGE, make)
        dropped = judges[0].dropped
        for row in dropped:
            if (score := scored.matrix.rows[row][0]) is not None and score.value is None:
                scored.matrix.rows[row][0] = None  # it is not missing
        ranking = self._build_ranking(
            session,
            scored,
            left_out={row: float(relevance) for row, relevance in dropped.items()},
            rule=dataclasses.replace(session.config.rule, top=properties.top),
            team=Team(members=(member,), query=session.job.query.text.strip()[:LONGEST_QUERY]),
        )
        of_the_judge = {"team_size": 1, "top_score": properties.top}
        config = {**ranking.config, **of_the_judge, "criterion_tops": list(properties.tops)}
        counts = WindowCounts(**judges[0].tally)
        return dataclasses.replace(ranking, config=config, windows=counts)

    async def _properties(self, session: Session) -> Properties:
        """Return the properties passages are scored by."""
        if self.variant == "one_turn":
            return self._fixed
        relevance_only = self.variant == "two_turn_relevance"
        weighted = self.config.infer_weights
        prompt = "rebel_infer_relevance" if relevance_only else self._infers
        return await session.ask(
            session.models.criteria,
            session.prompts[prompt].render({"query": session.query.text}),
            lambda reply: read_properties(
                reply.text, relevance_only=relevance_only, weighted=weighted
            ),
            stage="criteria",
            persona=JUDGE,
            max_tokens=session.config.max_tokens,
            schema=RELEVANCE_SCHEMA if relevance_only else properties_schema(weighted=weighted),
        )

    @property
    def _infers(self) -> str:
        return "rebel_infer_weights" if self.config.infer_weights else "rebel_infer"


class WindowJudge(Actor[Rows]):
    """Scores windows of passages by one call each."""

    def __init__(
        self,
        properties: Properties,
        ranker: RebelRanker,
        session: Session,
        ensembler: Actor[Any],
    ) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__("window judge", self._score, workers=workers)
        self.at_once = ranker.config.window
        self.dropped: dict[int, int] = {}
        self.tally = Counter[str]()
        self._properties = properties
        self._least = ranker.config.min_relevance_score
        self._session = session
        self._ensembler = ensembler
        self._keys = property_keys(len(properties.listed))
        weights = [f"{each.weight:.6g}" for each in properties.listed]
        listed = []
        for number, each in enumerate(properties.listed, start=1):
            values = {"number": str(number), "name": Name(each.name), "weight": weights[number - 1]}
            values["explanation"] = each.description
            listed.append(session.prompts.piece("rebel_property", values).rstrip(" :"))
        terms = (f"{weight} * {key}" for weight, key in zip(weights, self._keys, strict=True))
        self._template = session.prompts["rebel" if self._keys else "rebel_relevance"].bind(
            {
                "query": session.query.text,
                "relevance": properties.relevance,
                "properties": Own("\n".join(listed)),
                "formula": " + ".join(("Relevance", *terms)),
                "keys": ", ".join(f'"{key}"' for key in ("Relevance", *self._keys, "Final")),
            }
        )

    async def _score(self, rows: Rows) -> None:
        """Score the passages; raise a `ModelError` only if the model as such failed."""

        async def take(part: Rows, reply: ReadWindow | ModelError) -> None:
            if isinstance(reply, ModelError):
                for row in part:
                    await self._tell(row, missing_score(reply))
                return
            self.tally.update(
                asked=1,
                odd=int(reply.odd),
                missing=reply.missing,
                repeated=reply.repeated,
                unknown=reply.unknown,
                unreadable=sum(problem != LEFT_OUT for problem in reply.problems.values()),
            )
            for place, scores in reply.scores.items():
                await self._tell(part[place], self._scored(part[place], scores))
            for place, problem in reply.problems.items():
                reason = f"{self._session.models.scoring.name} gave no score: {problem}"
                await self._tell(part[place], Score(None, reason=reason))

        await self._session.forms["score", JUDGE].in_parts(rows, self._call, take)

    async def _tell(self, row: int, score: Score) -> None:
        await self._ensembler.tell(Scores(row, 0, (score,)))

    async def _call(self, rows: Rows) -> ReadWindow | ReplyError:
        partly: list[ReadWindow] = []

        def read(reply: ChatReply) -> ReadWindow:
            window = read_window(
                reply.text, count=len(rows), properties=len(keys), least=self._least
            )
            if partly:
                return partly[0].mended(window)
            for place, problem in window.problems.items():
                if config.repair_attempts:
                    partly.append(window)
                    raise Unreadable(f"passage {place + 1}: {problem}.")
            return window

        session, config, keys = self._session, self._session.config, self._keys
        values = {"passages": session.numbered(rows), "count": str(len(rows))}
        most = config.max_score_tokens
        if "max_score_tokens" not in config.model_fields_set:
            most = max(most, len(rows) * (len(keys) + 3) * _TOKENS_A_SCORE)
        try:
            return await session.ask(
                session.models.scoring,
                self._template.render(values),
                read,
                stage="score",
                persona=JUDGE,
                doc_id=session.passage(rows[0]).id if len(rows) == 1 else "",
                max_tokens=most,
                schema=window_schema(len(rows), keys),
                passages=len(rows),
                divisible=False,
            )
        except ModelError as error:
            if partly and isinstance(error, ReplyError):
                return partly[0]
            if not isinstance(error, FormNotKept):  # else nothing was asked
                self.tally["failed"] += 1
            if isinstance(error, ReplyError):
                return error  # halves are not asked about
            raise

    def _scored(self, row: int, scores: PassageScores) -> Score:
        """Return the final score, the sum of `scores`; none for a passage that is dropped."""
        relevance, properties = scores
        if relevance < self._least:
            self.dropped[row] = relevance
        if properties is None:
            return Score(
                None, reason=f"dropped: its relevance, {relevance}, is below {self._least}"
            )
        final = self._properties.composite(relevance, properties)
        return Score(final, criteria=tuple(map(float, (relevance, *properties))))


def _fixed_properties(prompts: PromptSet) -> Properties:
    """The properties of one turn, by the wording of the prompt set; names must differ."""
    relevance, lines = (
        prompts[name].render({})[-1].text for name in ("rebel_rubric", "rebel_criteria")
    )
    named = [line.partition(":") for line in lines.splitlines() if line.strip()]
    listed = [Property(name.strip(), text.strip(), WEIGHT) for name, _, text in named]
    found = Properties(relevance, tuple(listed))
    try:
        found.rubric()
    except ValidationError as error:
        raise PromptError(
            f"{prompts.name}/rebel_criteria.txt: {error.errors()[0]['msg']}; write a line a "
            "property, as in 'Recency: what 5 and 0 mean', none of which is called Relevance"
        ) from error
    return found
