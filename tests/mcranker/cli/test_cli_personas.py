"""The `personas` command: list, show, validate, diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcranker.cli.group import personas as cli
from personas import Criterion, Member, Persona, Rubric, Team, library, load, save
from personas.origins import sealed

EFFECT = Criterion(name="Effect", description="It says how well a mask filters.", weight=75)
COST = Criterion(name="Cost", description="It names a price.", weight=25)
NURSE = Member(
    persona=Persona(name="Nurse", description="Wears masks all day.", reason="She asked."),
    rubric=Rubric(criteria=(EFFECT, COST)),
    origin="recruited",
)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def run(*args: str | Path, code: int = 0) -> Result:
    """Run the command in this process; its exit code is `code`."""
    result = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert not {"\x1b", "\x9b", "\u202e"} & set(result.output)
    return result


def said(*args: str | Path) -> dict[str, Any]:
    """The envelope that the command prints."""
    whole: dict[str, Any] = json.loads(run(*args, "--output", "json").stdout)
    assert (whole["status"], whole["exit_code"], whole["errors"]) == ("ok", 0, [])
    return whole


def written(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_list_lists_the_library() -> None:
    listed = said("list")["members"]
    assert tuple(each["name"] for each in listed) == library.member_names()
    clinician = next(each for each in listed if each["name"] == "clinician")
    assert (clinician["persona"], clinician["criteria"]) == ("Clinician", 4)
    assert "surgery" in clinician["topics"]
    teams = said("list", "--teams")["teams"]
    assert tuple(each["name"] for each in teams) == library.team_names()
    health = next(each for each in teams if each["name"] == "health_questions")
    assert health["members"] == ["NLP scientist", "Public health researcher", "Clinician"]


def test_show_a_team_says_what_a_person_edited() -> None:
    nurse = sealed(NURSE)
    own = Criterion(name="Comfort", description="It says how a mask feels.", weight=75)
    edited = nurse.model_copy(update={"rubric": Rubric(criteria=(own, COST), reason="mine")})
    doctor = Member(persona=Persona(name="Doctor"))
    team = Team(members=(nurse, edited_name(edited), doctor), query="best masks").lock()
    save(team, "team.yaml")
    page = run("show", "team.yaml").stdout
    facts = f"3 members, digest {team.digest}, locked: nothing is recruited or rewritten"
    assert page.startswith(f"best masks\n{facts}\n\n")
    assert "\nNurse  recruited by the model\nWears masks all day.\nwhy: She asked.\n━" in page
    assert "\nMatron  recruited by the model; edited by hand\n" in page
    assert page.endswith("Doctor  added by hand\nno criteria\n")


def edited_name(member: Member) -> Member:
    persona = member.persona.model_copy(update={"name": "Matron"})
    return member.model_copy(update={"persona": persona})


def test_show_writes_what_can_be_edited() -> None:
    written("mine.yaml", run("show", "clinician", "--output", "yaml").stdout)
    assert load(Member, "mine.yaml") == library.member("clinician")
    written("team.yaml", run("show", "health_questions", "--output", "yaml").stdout)
    assert load(Team, "team.yaml") == library.team("health_questions")
    run("show", "clinician", "mine.yaml", "--output", "yaml", code=2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clinican", "no member and no team 'clinican'; did you mean clinician?"),
        ("helth-questions", "did you mean health_questions or "),
        ("xqzw", "see 'personas list', or name a file that ends in .yaml, .yml or .json"),
        ("gone.yaml", "gone.yaml: cannot be read: No such file"),
        ("text.txt", "text.txt: has the suffix '.txt'; use .yaml, .yml or .json"),
        ("list.yaml", "list.yaml:1: holds no team, member, rubric or persona; write one with"),
        ("other.yaml", "other.yaml:1: the library has no member 'list.yaml'"),
        ("../../etc", "no member and no team '../../etc'"),
    ],
)
def test_show_says_what_is_not_there(name: str, message: str) -> None:
    written("text.txt", "")
    written("list.yaml", "[clinician]")
    written("other.yaml", "members: [list.yaml]")
    stderr = run("show", *name.split(), code=1).stderr
    assert message in stderr
    assert stderr.count("\n") == 1


BAD = "members:\n- persona: {name: A}\n  rubrik: 1\n- persona: {nam: B}\nlocked: 3\n"


def test_validate_lists_every_problem() -> None:
    written("bad.yaml", BAD)
    save(Team(members=(NURSE,)).lock(), "good.yaml")
    save(Rubric(criteria=(EFFECT,)), "rubric.yaml")
    save(NURSE, "member.yaml")
    result = run(
        *("show", "--check", "bad.yaml", "good.yaml", "rubric.yaml", "member.yaml", "gone.json"),
        code=1,
    )
    assert result.stdout.splitlines() == [
        "bad.yaml:3: members[0].rubrik: unknown key; did you mean 'rubric'?",
        "bad.yaml:4: members[1].persona.name: is missing; add it",
        "bad.yaml:4: members[1].persona.nam: unknown key; did you mean 'name'?",
        "bad.yaml:5: locked: must be true or false, not 3",
        "good.yaml: team of 1 member, locked",
        "rubric.yaml: rubric of 1 criterion",
        "member.yaml: member 'Nurse', 2 criteria",
        "gone.json: cannot be read: No such file or directory",
    ]
    assert result.stderr == "personas: error: 2 of 5 files cannot be used\n"


def test_show_says_that_weights_are_brought_to_100() -> None:
    criteria = "[{name: Fit, weight: 80}, {name: Price, weight: 65}]"
    written("rubric.yaml", f"criteria: {criteria}\n")
    for args in (("show", "rubric.yaml"), ("show", "--check", "rubric.yaml")):
        assert "sum to 145 and are brought to 100: 80 becomes 55.2%" in run(*args).stderr
