"""Rubrics of the library that a criteria writer sees, as ``criteria_examples`` says.

"RubricRAG" (arXiv 2603.20882) found rubrics written beside retrieved ones nearer to people's.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcranker.llm.chat import ChatReply, Option, Question, State
from mcranker.method.rubric_text import rubrics_as_text
from mcranker.method.session import Session
from mcranker.replies.loose_json import Unreadable
from personas import Member, library
from personas.closeness import closest_members
from personas.templates import Template, Turn


async def examples_for(member: Member, about: str, session: Session) -> tuple[Member, ...]:
    """Return the members of the library whose rubrics are closest to this persona and text."""
    count = session.config.criteria_examples
    if not count:
        return ()
    recruiter = session.models.recruiter
    candidates = [each for each in library.members() if each.rubric is not None]
    most = recruiter.capabilities.max_choices
    if recruiter.capabilities.prompts or (most is not None and len(candidates) > most):
        persona = member.persona
        return closest_members(f"{persona.name} {persona.description} {about}", count)
    options = tuple(Option(each.name, ", ".join(each.persona.topics)) for each in candidates)
    task = session.prompts["typed_recruit"].render({})[-1].text

    def read(reply: ChatReply) -> tuple[float, ...]:
        chances = [each.probabilities or () for each in reply.answers or ()]
        if len(chances) != 1 or len(chances[0]) != len(candidates):
            raise Unreadable("it has not the probability of each option.")
        return chances[0]

    chances = await session.ask(
        recruiter,
        (),
        read,
        stage="recruit",
        persona=member.name,
        max_tokens=session.config.max_tokens,
        questions=(Question("judge", task, 1, "choice", options),),
        state=State(session.prompts.cleaner.text(f"{member.name}: {about}"), {}),
    )
    best = sorted(zip(chances, candidates, strict=True), key=lambda pair: -pair[0])
    return tuple(each for _, each in best[:count])


def with_examples(
    template: Template, values: dict[str, str], examples: Sequence[Member], session: Session
) -> tuple[Turn, ...]:
    """The criteria prompt with the rubrics of `examples` in it."""
    text = ""
    if examples:
        listed = rubrics_as_text(examples, session.prompts)["criteria"]
        text = session.prompts.piece("criteria_examples", {"examples": listed})
    turns = template.render({**values, "examples": text})
    if not text or "examples" in template.placeholders:
        return turns
    place = max(number for number, turn in enumerate(turns) if turn.role != "assistant")
    longer = turns[place]._replace(text=f"{turns[place].text}\n\n{text}")
    return (*turns[:place], longer, *turns[place + 1 :])
