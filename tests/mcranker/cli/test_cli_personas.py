"""The `personas` command: list, show, validate, diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcranker import MCRanker
from mcranker.cli.group import PERSONAS as VERBS
from mcranker.cli.group import personas as cli
from mcranker.cli.reference import reference
from personas import Criterion, Member, Persona, Rubric, Team, dumps, library, load, save
from personas.provenance import sealed
from tests.support.scripted import scripted

UNSAFE = "\x1b[31mred\x9b0m \u202eback [bold]b[/bold]"
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


def test_the_reference_covers_the_command() -> None:
    page = reference("mcranker.cli.group:personas")
    assert "mcranker.cli.group:personas > docs/personas.md`;" in page
    assert "begins with `personas: error:`" in page
    assert '"members": [], "errors": []' in page
    assert r"\b" not in page, "marks an example, and is written as the character"
    for verb in VERBS:
        assert f"\n## `personas {verb}`\n" in page


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


def test_list_takes_what_has_every_word() -> None:
    names = [each["name"] for each in said("list", "DRUG", "guidelines")["members"]]
    assert names == ["clinician"]
    page = run("list", "drug", "guidelines").stdout
    assert page.count("Clinician") == 1
    assert "drug therapy" in page
    assert page.split("topics")[1].split("Clinician")[1].rstrip()
    assert "nothing on 'drug zzz'" in run("list", "drug", "zzz").stderr
    page = run("list", "--teams", "virologist").stdout
    assert "epidemic_research" in page
    assert "health_questions" not in page


def test_show_a_member_of_the_library() -> None:
    page = run("show", "clinician").stdout
    assert page.startswith("Clinician  from the library\nA practising doctor who")
    assert "topics: diagnosis, treatment," in page
    # 16 columns are 100%: 40% are 6.4, and 0.4 of a column is about a half.
    assert "━━━━━━╸            40%  Answers the clinical question\n" in page
    assert " by a " not in page
    assert run("show", "Clinician").stdout == page


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
    assert "\nMatron  recruited by the model; edited by a person\n" in page
    assert page.endswith("Doctor  added by a person\nno criteria\n")


def edited_name(member: Member) -> Member:
    persona = member.persona.model_copy(update={"name": "Matron"})
    return member.model_copy(update={"persona": persona})


def test_show_tells_what_a_file_holds() -> None:
    save(Persona(name="Nurse", description="Wears masks."), "persona.yaml")
    assert run("show", "persona.yaml").stdout == "Nurse\nWears masks.\n"
    save(Rubric(criteria=(EFFECT, COST), reason="what matters"), "rubric.json")
    page = run("show", "rubric.json").stdout
    assert page.startswith("what matters\n━━━━━━━━━━━━       75%  Effect\n")
    save(NURSE, "member.yml")
    save(Team(members=(NURSE,)), "team.yaml")
    files = ["persona.yaml", "rubric.json", "member.yml", "team.yaml"]
    found = said("show", *files)["records"]
    assert [each["kind"] for each in found] == ["persona", "rubric", "member", "team"]
    assert [each["source"] for each in found] == files
    assert Member.model_validate(found[2]["record"]) == NURSE
    assert found[3]["edited"] == []
    several = run("show", "persona.yaml", "member.yml").stdout
    assert several.startswith("persona.yaml\nNurse\nWears masks.\n\nmember.yml\nNurse  recruited")


def test_show_writes_what_can_be_edited() -> None:
    written("mine.yaml", run("show", "clinician", "--output", "yaml").stdout)
    assert load(Member, "mine.yaml") == library.member("clinician")
    written("team.yaml", run("show", "health_questions", "--output", "yaml").stdout)
    assert load(Team, "team.yaml") == library.team("health_questions")
    save(Persona(name="Nurse"), "nurse.yaml")
    members = ("nlp_scientist", "mine.yaml", "nurse.yaml")
    written("own.yaml", run("show", *members, "--output", "yaml").stdout)
    assert load(Team, "own.yaml").names == ("NLP scientist", "Clinician", "Nurse")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clinican", "no member and no team 'clinican'; did you mean clinician?"),
        ("helth-questions", "did you mean health_questions or "),
        ("clinician clinician --output yaml", "'Clinician', 'Clinician' are no team: a name occ"),
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


def test_foreign_text_reaches_no_terminal_as_it_is() -> None:
    unsafe = Criterion(name=f"{UNSAFE} 1", description=UNSAFE, weight=60)
    member = Member(
        persona=Persona(name=UNSAFE, description=UNSAFE, topics=(UNSAFE,), reason=UNSAFE),
        rubric=Rubric(criteria=(unsafe, COST), reason=UNSAFE),
    )
    team = Team(members=(member,), name=UNSAFE, description=UNSAFE, query=UNSAFE)
    save(team, "unsafe.yaml")
    # `run` looks for what must not be there.
    page = run("show", "unsafe.yaml").stdout
    # What is told of the team three times, of the persona four, of the rubric three.
    assert page.count("\\x1b[31mred\\x9b0m \\u202eback [bold]b[/bold]") == 10
    run("show", "--check", "unsafe.yaml")
    written("odd.yaml", dumps(team) + f'"{"zz"}\\e[31m": 1\n')
    assert "zz\\x1b[31m: unknown key" in run("show", "--check", "odd.yaml", code=1).stdout
    assert (
        load(Team, written("again.yaml", run("show", "unsafe.yaml", "--output", "yaml").stdout))
        == team
    )


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
        "bad.yaml:5: locked: Input should be a valid boolean, got 3",
        "good.yaml: team of 1 member, locked",
        "rubric.yaml: rubric of 1 criterion",
        "member.yaml: member 'Nurse', 2 criteria",
        "gone.json: cannot be read: No such file or directory",
    ]
    assert result.stderr == "personas: error: 2 of 5 files cannot be used\n"


def test_validate_looks_into_folders(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/d.json", ".git/e.yaml"):
        Path(name).parent.mkdir(exist_ok=True)
        save(Persona(name="A"), name)
    written("f.txt", "")
    lines = run("show", "--check", ".", "b.yaml").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["a/c.yml", "a/d.json", "b.yaml"]
    Path("empty").mkdir()
    assert (
        "empty: has no .yaml, .yml or .json file below it"
        in run("show", "--check", "empty", code=1).stderr
    )


ODD = """\
members:
- persona: {name: A}
- persona: {name: B}
  rubric:
    criteria:
    - {name: x, weight: 91}
    - {name: y, weight: 9}
"""


def test_validate_as_json() -> None:
    written("bad.yaml", BAD)
    written("odd.yaml", ODD)
    whole = json.loads(
        run("show", "--check", "bad.yaml", "odd.yaml", "--output", "json", code=1).stdout
    )
    assert (whole["status"], whole["exit_code"]) == ("error", 1)
    assert whole["errors"][0]["message"] == "1 of 2 files cannot be used"
    bad, odd = whole["files"]
    assert (bad["file"], len(bad["problems"]), bad["holds"]) == ("bad.yaml", 4, "")
    assert (odd["problems"], len(odd["warnings"]), odd["holds"]) == ([], 0, "team of 2 members")


def test_each_persona_of_the_library_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = run("list").stdout.splitlines()
        assert [line.split()[0] for line in lines[2:]] == list(library.member_names())
        assert all(len(line) <= columns for line in lines)
        teams = run("list", "--teams").stdout.splitlines()
        assert [line.split()[0] for line in teams[2:]] == list(library.team_names())


def test_weights_brought_to_100_are_told_by_show_and_validate() -> None:
    Path("team.yaml").write_text(
        "members:\n- persona: {name: Nurse}\n  rubric:\n    criteria:\n"
        "    - {name: Fit, weight: 80}\n    - {name: Price, weight: 65}\n",
        encoding="utf-8",
    )
    note = "the weights of 'Nurse' sum to 145 and are brought to 100: 80 becomes 55.2%, and so on"
    assert run("show", "team.yaml").stderr == f"personas: warning: team.yaml: {note}\n"
    assert run("show", "--check", "team.yaml").stderr == (
        f"personas: warning: team.yaml:4: members[0].rubric.criteria: {note}\n"
    )
    (checked,) = said("show", "--check", "team.yaml")["files"]
    assert checked["warnings"] == [f"team.yaml:4: members[0].rubric.criteria: {note}"]


def test_a_saved_ranking_is_its_team(tmp_path: Path) -> None:
    ranker = MCRanker(team=Team(members=(NURSE,)), model=scripted(), ledger=None)
    Path("m1.json").write_text(ranker.rank("q", ["a passage"]).to_json(), encoding="utf-8")
    save(Team(members=(NURSE,)), "team.yaml")
    assert run("show", "m1.json").stdout == run("show", "team.yaml").stdout
    assert run("show", "--check", "m1.json").stdout == "m1.json: team of 1 member\n"
    run("show", "m1.json", "--output", "yaml")
