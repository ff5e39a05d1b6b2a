"""Rubrics as prompts show them, in the words of the prompt set's pieces."""

from __future__ import annotations

from collections.abc import Sequence

from personas import Member, PromptSet


def rubric_as_text(member: Member, prompts: PromptSet) -> dict[str, str]:
    """The criteria as prompts show them: in full, and by name only."""
    full, names = [], []
    for number, criterion in enumerate(member.rubric.criteria if member.rubric else (), start=1):
        values = {
            "number": str(number),
            "name": criterion.name,
            "weight": f"{criterion.weight:.0f}",
            "explanation": prompts.cleaner.text(criterion.description),
        }
        explained = values["explanation"]
        full.append(prompts.piece("criterion" if explained else "criterion_unexplained", values))
        names.append(prompts.piece("criterion_name", values))
    return {"criteria": "\n".join(full), "criteria_names": "\n".join(names)}


def rubrics_as_text(members: Sequence[Member], prompts: PromptSet) -> dict[str, str]:
    """The criteria of a whole team, persona by persona, each with its own weights (Table 2)."""
    of_each = [
        {
            name: prompts.piece(
                "criteria_of",
                {
                    "number": str(number),
                    "persona": member.name,
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
        name: "\n\n".join(each[name] for each in of_each) for name in ("criteria", "criteria_names")
    }
