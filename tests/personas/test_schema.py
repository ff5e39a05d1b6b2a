"""Teams, rubrics and personas as values, and as YAML and JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from personas import Criterion, Member, Persona, Rubric, SchemaError, Team, dumps, load, loads, save

FORMATS = ("yaml", "json")

# Everything that UTF-8 can hold: control characters, line separators, marks, astral planes.
characters = st.characters(exclude_categories=["Cs"])
tricky = st.sampled_from(
    [
        *("yes", "no", "on", "null", "~", "1e3", "0x1F", "012", "1_000", "12:30:45", "2024-01-01"),
        *("=", "<<", "- a", "a: b", "a #b", "#", "{a", "[a", "*a", "&a", "!a", "%a", "@a", "`a"),
        *("'", '"', "\\", "a\nb", "a\n\n  b\n c", "a\r\nb", "a\tb", "...", "---", "\u2028a\u2029"),
        *(
            "\x00",
            "\x85a",
            "\ufeff",
            "a\ufffe",
            "é",
            "e\u0301",
            "عربي",
            "\U0001d4b3",
            "👩🏽\u200d⚕️",
            "\U0010ffff",
        ),
    ]
)
names = (tricky | st.text(characters, max_size=40)).filter(lambda text: bool(text.strip(" ")))
texts = (
    tricky | st.text(characters, max_size=80) | st.text(st.sampled_from("ab \n:#-"), max_size=300)
)


def _built(build: Any) -> Any:
    """The record, or None where the names are empty or repeated once stripped."""
    try:
        return build()
    except (ValidationError, ValueError):
        return None


def records(make: Any, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*parts).map(lambda each: _built(lambda: make(*each))).filter(bool)


criteria = records(
    lambda name, text, weight: Criterion(name=name, description=text, weight=weight),
    names,
    texts,
    st.floats(0, 1000) | st.sampled_from([0.0, 1e-10, 50.0, 100.0]),
)
rubrics = records(
    lambda criteria, reason: Rubric(criteria=criteria, reason=reason),
    st.lists(criteria, min_size=1, max_size=4),
    texts,
)
people = records(
    lambda name, text, topics, reason: Persona(
        name=name, description=text, topics=topics, reason=reason
    ),
    names,
    texts,
    st.lists(names, max_size=3),
    texts,
)
members = records(
    lambda persona, rubric, origin: Member(persona=persona, rubric=rubric, origin=origin),
    people,
    rubrics | st.none(),
    st.sampled_from(["fixed", "recruited", "library", "human"]),
)
teams = records(
    lambda members, name, text, query, locked: Team(
        members=members, name=name, description=text, query=query, locked=locked
    ),
    st.lists(members, min_size=1, max_size=3),
    texts,
    texts,
    texts,
    st.booleans(),
)


def _pair(first: float, second: float) -> Team:
    criteria = (
        Criterion(name="yes", description=" a\n b ", weight=first),
        Criterion(name="1e3", weight=second),
    )
    rubric = Rubric(criteria=criteria)
    return Team(members=(Member(persona=Persona(name="no"), rubric=rubric),))


def _named(name: str) -> Team:
    return Team(members=(Member(persona=Persona(name=name)),))


@pytest.mark.parametrize("format", FORMATS)
@given(team=teams)
@example(team=_pair(100.0, 0.0))
@example(team=_pair(100.0, 1e-10))
@example(team=_pair(1 / 3, 2 / 3))
@example(team=_named("a\x85b"))
@example(team=_named("a\u2028b"))
@example(team=_named("a\u2029 b"))
@example(team=_named("\ufeff"))
def test_a_team_reads_back_as_it_was(format: str, team: Team) -> None:  # noqa: A002
    assert loads(Team, dumps(team, format=format), format=format) == team


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json", ".YAML"])
def test_a_file_reads_back_as_it_was(suffix: str, tmp_path: Path) -> None:
    team = _pair(30, 70)
    save(team, tmp_path / f"team{suffix}")
    assert load(Team, tmp_path / f"team{suffix}") == team
    assert load(Team, str(tmp_path / f"team{suffix}")) == team


def test_saved_text_is_what_a_person_would_write() -> None:
    assert dumps(_pair(30, 70)) == (
        "members:\n"
        "- persona:\n"
        "    name: 'no'\n"
        "  rubric:\n"
        "    criteria:\n"
        "    - name: 'yes'\n"
        '      description: "a\\n b"\n'
        "      weight: 30.0\n"
        "    - name: 1e3\n"
        "      weight: 70.0\n"
    )


@pytest.mark.parametrize("char", ["\u202e", "\u2066", "\u200b", "\x9b", "\ufeff", "\U000e0041"])
def test_unseen_characters_are_written_as_escapes(char: str) -> None:
    for format_ in FORMATS:
        text = dumps(_named(f"a\\{char}b"), format=format_)
        assert char not in text
        assert loads(Team, text, format=format_) == _named(f"a\\{char}b")
        # Words and emoji are spelled with joiners.
        assert "a\u200d\u200cb" in dumps(_named("a\u200d\u200cb"), format=format_)


def test_names_of_a_team_and_of_a_rubric_are_distinct_without_regard_to_case() -> None:
    with pytest.raises(ValueError, match="persona 'NURSE' occurs twice; rename or remove"):
        Team(members=(Member(persona=Persona(name="Nurse")), Member(persona=Persona(name="NURSE"))))
    with pytest.raises(ValueError, match="criterion 'Straße' occurs twice"):
        Rubric(criteria=(Criterion(name="STRASSE"), Criterion(name="Straße")))


def test_members_of_the_library_stand_under_their_names() -> None:
    team = loads(Team, "members: [nlp_scientist, {persona: {name: Nurse}}]")
    assert team.names == ("NLP scientist", "Nurse")
    assert team.members[0].rubric is not None
    assert (team.members[0].origin, team.members[1].origin) == ("fixed", "human")


RUBRIC = "members:\n- persona: {name: Nurse}\n  rubric:\n    criteria:\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("members: [clinican]", "t.yaml:1: the library has no member 'clinican'; did you mean"),
        (
            "members:\n- persona: {name: A}\n  rubrik: 1\n",
            "t.yaml:3: members[0].rubrik: unknown key; did you mean 'rubric'?",
        ),
        ("members: [clinician]\nzzz: 1\n", "t.yaml:2: zzz: unknown key; remove it"),
        ("name: x\n", "t.yaml:1: members: is missing; add it"),
        ("members:\n- origin: human\n", "t.yaml:2: members[0].persona: is missing; add it"),
        ("name: x\nmembers: []\n", "t.yaml:2: members: "),
        (
            "members:\n- persona:\n    name: 7\n",
            "t.yaml:3: members[0].persona.name: must be a text, not 7 (put it in quotes)",
        ),
        ("members:\n- persona:\n    name: yes\n", "not True (put it in quotes)"),
        ("members:\n- persona:\n    name: ''\n", "t.yaml:3: members[0].persona.name: "),
        ("members:\n- persona:\n    name: " + "x" * 201, "at most 200 characters"),
        ("members:\n- persona: {name: A}\n  origin: me\n", "t.yaml:3: members[0].origin: "),
        ("members: [clinician]\nlocked: 1\n", "t.yaml:2: locked: "),
        ("members: clinician\n", "t.yaml:1: members: "),
        ("[1]", "t.yaml:1: "),
        ("", "t.yaml: "),
        (
            RUBRIC + "    - {name: a, weight: -1}\n",
            "t.yaml:3: members[0].rubric: weight 1 is -1; a weight is a number from 0",
        ),
        (
            RUBRIC + "    - {weight: 3}\n",
            "t.yaml:5: members[0].rubric.criteria[0].name: is missing",
        ),
        (
            RUBRIC + "    - {name: a}\n    - {name: A}\n",
            "t.yaml:3: members[0].rubric: criterion 'A' occurs twice; rename or remove one",
        ),
        (
            "members: [clinician]\nname: a\nname: b\n",
            "t.yaml:3: not YAML: key 'name' occurs twice; remove one",
        ),
        ("members: [clinician]\n? [a]\n: b\n", "t.yaml:2: not YAML: ['a'] cannot be a key"),
        ("members: [\n", "t.yaml:2: not YAML: "),
        ("a: b: c\n", "t.yaml:1: not YAML: "),
        ("members: !!python/object:os.system {}\n", "t.yaml:1: not YAML: "),
        ("members: [clinician]\nlocked: !!bool maybe\n", "t.yaml: cannot be parsed: "),
        ("members: !!timestamp soon\n", "t.yaml: cannot be parsed: "),
        ("members: &a [*a]\n", "t.yaml:1: not YAML: an alias (*name)"),
        ("name: \x07\n", "t.yaml: cannot be parsed: "),
    ],
)
def test_messages_name_file_line_place_and_fix(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        loads(Team, text, source="t.yaml")
    assert message in str(caught.value)


@given(st.text() | st.text(st.sampled_from("members:[]{}!&*a- \n'\"<>|%,?1.")))
def test_any_text_is_a_team_or_a_schema_error(text: str) -> None:
    for format_ in FORMATS:
        try:
            loads(Team, text, format=format_)
        except SchemaError as error:
            if not str(error).startswith("text:"):
                raise


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "latin.yaml").write_bytes("name: Café\n".encode("latin-1"))
    for name, problem in (
        ("gone.yaml", "cannot be read: No such file"),
        ("folder.yaml", "cannot be read: Is a directory"),
        ("latin.yaml", r"not UTF-8 \(byte 10\); save it as UTF-8"),
    ):
        with pytest.raises(SchemaError, match=f"{name}: {problem}"):
            load(Team, tmp_path / name)
    for name, problem in (
        ("gone/team.yaml", "No such file"),
        ("file/team.yaml", "Not a directory"),
        ("folder.yaml", ""),
    ):
        with pytest.raises(SchemaError, match=f"{name}: cannot be written: {problem}"):
            save(_pair(1, 1), tmp_path / name)
