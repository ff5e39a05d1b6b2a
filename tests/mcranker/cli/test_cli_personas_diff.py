"""``personas diff``: what is shown of two teams, members or rubrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from personas import Criterion, Member, Persona, Rubric, Team, save
from tests.mcranker.cli.test_cli_personas import COST, EFFECT, NURSE, run, said


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def _edited() -> Team:
    safety = Criterion(name="Safety", description="It says what may go wrong.", weight=10)
    effect = EFFECT.model_copy(update={"name": "Filtering", "weight": 70.0})
    cost = COST.model_copy(update={"description": "It gives a price.", "weight": 20.0})
    rubric = Rubric(criteria=(cost, effect, safety))
    persona = NURSE.persona.model_copy(update={"topics": ("masks",), "reason": ""})
    nurse = NURSE.model_copy(update={"rubric": rubric, "persona": persona, "origin": "human"})
    return Team(members=(Member(persona=Persona(name="Parent")), nurse), name="Mine").lock()


def test_diff_shows_what_was_done() -> None:
    doctor = Member(persona=Persona(name="Doctor", description="Treats."), origin="library")
    save(Team(members=(NURSE, doctor)), "before.yaml")
    save(_edited(), "after.yaml")
    assert run("diff", "before.yaml", "after.yaml").stdout == (
        "~ name\n"
        "  + Mine\n"
        "~ locked: no → yes\n"
        "+ Parent, added by a person\n"
        "- Doctor, from the library\n"
        "  - Treats.\n"
        "~ Nurse\n"
        "  ~ why\n"
        "    - She asked.\n"
        "  ~ topics: +masks\n"
        "  ~ recruited by the model → added by a person\n"
        "  + 10% Safety: It says what may go wrong.\n"
        "  ~ Cost: 25% → 20%\n"
        "    - It names a price.\n"
        "    + It gives a price.\n"
        "  ~ Filtering, was Effect: 75% → 70%\n"
        "  > Cost: from place 2 to 1\n"
    )
    whole = said("diff", "before.yaml", "after.yaml")
    assert whole["differs"] is True
    assert whole["diff"]["locked"] == {"before": False, "after": True}
    assert whole["diff"]["added"] == [{"persona": {"name": "Parent"}}]
    nurse = whole["diff"]["changed"][0]
    assert nurse["topics"] == {"before": [], "after": ["masks"]}
    assert nurse["rubric"]["moved"] == [{"name": "Cost", "before": 2, "after": 1}]
    assert "description" not in nurse


def test_diff_of_a_rubric_that_came_or_went() -> None:
    save(NURSE, "with.yaml")
    save(NURSE.model_copy(update={"rubric": None}), "bare.yaml")
    criteria = "75% Effect: It says how well a mask filters.", "25% Cost: It names a price."
    came = "".join(f"  + {each}\n" for each in criteria)
    assert run("diff", "bare.yaml", "with.yaml").stdout == f"~ Nurse\n{came}"
    gone = "".join(f"  - {each}\n" for each in criteria)
    assert run("diff", "with.yaml", "bare.yaml").stdout == f"~ Nurse\n{gone}"


def test_diff_of_a_small_change_of_weight_shows_digits_that_tell() -> None:
    save(Rubric(criteria=(EFFECT, COST)), "a.yaml")
    slightly = [
        EFFECT.model_copy(update={"weight": 75.001}),
        COST.model_copy(update={"weight": 24.999}),
    ]
    save(Rubric(criteria=tuple(slightly)), "b.yaml")
    assert run("diff", "a.yaml", "b.yaml").stdout == (
        "~ Effect: 75.000000% → 75.001000%\n~ Cost: 25.000000% → 24.999000%\n"
    )


def test_weights_are_those_of_the_files_with_their_share_beside_them() -> None:
    # 80 beside 40 and 25 is 145: 55.2%, 27.6% and 17.2%.
    persona = "persona: {name: Nurse}\nrubric:\n  criteria:\n"
    for name, weights in {"a": (35, 40, 25), "b": (80, 40, 25), "c": (1, 1, 98)}.items():
        listed = [f"    - {{name: c{n}, weight: {w}}}\n" for n, w in enumerate(weights, 1)]
        Path(f"{name}.yaml").write_text(persona + "".join(listed), encoding="utf-8")
    assert run("diff", "a.yaml", "b.yaml").stdout == (
        "~ Nurse\n  ~ c1: 35% → 80 (55.2%)\n  ~ c2: 40% → 40 (27.6%)\n  ~ c3: 25% → 25 (17.2%)\n"
    )
    # 1, 1 and 98 sum to 100, whatever they have been before.
    assert run("diff", "a.yaml", "c.yaml").stdout == (
        "~ Nurse\n  ~ c1: 35% → 1%\n  ~ c2: 40% → 1%\n  ~ c3: 25% → 98%\n"
    )


def test_diff_of_equals_says_so_and_ends_well() -> None:
    assert run("diff", "clinician", "clinician", "--exit-code").stdout == "no differences\n"
    whole = said("diff", "health_questions", "health_questions")
    assert (whole["differs"], whole["diff"]) == (False, {})
    save(Persona(name="Nurse"), "a.yaml")
    save(Member(persona=Persona(name="Nurse")), "b.yaml")
    assert run("diff", "a.yaml", "b.yaml").stdout == "no differences\n"


def test_diff_ends_with_1_only_where_asked() -> None:
    run("diff", "clinician", "patient", code=0)
    assert run("diff", "clinician", "patient", "--exit-code", code=1).stderr == ""
    result = run("diff", "clinician", "patient", "--exit-code", "--output", "json", code=1)
    whole = json.loads(result.stdout)
    assert (whole["status"], whole["exit_code"], whole["differs"]) == ("error", 1, True)
    assert whole["errors"][0]["code"] == "Differs"


def test_diff_takes_two_of_a_kind() -> None:
    stderr = run("diff", "clinician", "health_questions", code=2).stderr
    assert "'clinician' is a member and 'health_questions' a team; give two of a kind" in stderr
