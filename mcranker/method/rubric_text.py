"""Rubrics in judges' prompts: with an instruction, and in the words of the prompt set's pieces."""

from __future__ import annotations

from collections.abc import Sequence

from mcranker.errors import InputError
from personas import Criterion, Member, Persona, PromptSet, Rubric
from personas.schema import MOST_CRITERIA
from personas.untrusted import Name, Own

INSTRUCTION_SHARE = 30.0
"""Percent of each rubric's weight for an instruction; other criteria share the rest in proportion.
"""

_LONGEST_NAME = 200


def with_instruction(member: Member, instruction: str) -> Member:
    """Add an instruction to the member's rubric as one more criterion."""
    text = " ".join(instruction.split())
    if not text:
        return member
    name = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1].rstrip()}…"
    given = member.rubric or Rubric(criteria=(Criterion(name="Relevance to the query"),))
    others = [each for each in given.criteria if each.name.casefold() != name.casefold()]
    if len(others) >= MOST_CRITERIA:
        raise InputError(
            f"{member.name!r} has {MOST_CRITERIA} criteria, which is as many as may be; take one "
            "out for the instruction"
        )
    whole = sum(each.weight for each in others) or 1.0
    rest = 100.0 - INSTRUCTION_SHARE if others else 0.0
    weighted = [each.model_copy(update={"weight": rest * each.weight / whole}) for each in others]
    described = "" if name == text else text
    added = Criterion(name=name, description=described, weight=100.0 - rest)
    rubric = Rubric(criteria=(*weighted, added), reason=given.reason)
    return member.model_copy(update={"rubric": rubric})


def judge_without_team(instruction: str) -> tuple[Member, ...]:
    """The judge of rankers without a team: none, or with an instruction one with criteria."""
    if not instruction.strip():
        return ()
    return (with_instruction(Member(persona=Persona(name="search expert")), instruction),)


def rubric_as_text(member: Member, prompts: PromptSet) -> dict[str, str]:
    """Return the criteria for prompts: in full, and by name only."""
    full, names = [], []
    for number, criterion in enumerate(member.rubric.criteria if member.rubric else (), start=1):
        explained = prompts.cleaner.text(criterion.description)
        values = {
            "number": str(number),
            "name": Name(criterion.name),
            "weight": f"{criterion.weight:.0f}",
            "explanation": explained,
        }
        full.append(prompts.piece("criterion" if explained else "criterion_unexplained", values))
        names.append(prompts.piece("criterion_name", values))
    return {"criteria": Own("\n".join(full)), "criteria_names": Own("\n".join(names))}


def rubrics_as_text(members: Sequence[Member], prompts: PromptSet) -> dict[str, str]:
    """Return a whole team's criteria, persona by persona, each with its own weights (Table 2)."""
    of_each = [
        {
            name: prompts.piece(
                "criteria_of",
                {
                    "number": str(number),
                    "persona": Name(member.name),
                    "description": member.persona.description,
                    "criteria": text,
                },
            )
            for name, text in rubric_as_text(member, prompts).items()
        }
        for number, member in enumerate(members, start=1)
        if member.rubric is not None
    ]
    return {
        name: Own("\n\n".join(each[name] for each in of_each))
        for name in ("criteria", "criteria_names")
    }
