"""The page of a team alone, what it would cost, and comparisons as Python has them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import ConfigError, InputError, MCRanker, ScriptedChat, compare, team_to_html
from mcranker.llm.chat import Capabilities
from mcranker.team_page import render_team_page, team_costs
from personas import Criterion, Member, Persona, Rubric, SchemaError, Team, library, save
from personas.report.team_page import render_team, team_digest
from tests.personas.ranking.test_comparison import CHANGED
from tests.personas.ranking.test_inspection import FOUR, stored
from tests.support.inspection_report import DOCS, Page, ranked

HOSTILE = "</title><script>alert(1)</script>\u202e<img src=x onerror=alert(2)>"


def member(name: str, *criteria: tuple[str, str], **more: Any) -> Member:
    listed = tuple(Criterion(name=one, description=two, weight=1) for one, two in criteria)
    rubric = Rubric(criteria=listed) if listed else None
    return Member(persona=Persona(name=name, **more), rubric=rubric)


VIROLOGIST = member(
    "Virologist",
    ("Filtration efficiency", "Measured filtration efficiency of the mask."),
    reason="Would ask which mask filters most.",
)
ENGINEER = member("Engineer", ("Filtration", "Filtration efficiency as measured."))
TEAM = Team(members=(library.nlp_scientist(), VIROLOGIST, ENGINEER), name="Mask testers")


def written(path: Path, *values: object) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def test_who_why_by_what_and_from_whom() -> None:
    page = Page(render_team(TEAM))
    words = " ".join(page.text.split())
    assert "Mask testers" in words
    assert "Why on the team Would ask which mask filters most." in words
    # The scientist and its four criteria are the library's.
    assert (
        "Of 9 personas and criteria, 5 are from the library, 4 are written or changed by a person."
        in words
    )
    # Each of the others has one criterion, so no weight counts.
    assert "Engineer Added by a person." in words
    assert "100%" not in words
    assert team_digest(TEAM) in words


def test_reasons_and_topics_of_an_edited_persona_are_not_shown() -> None:
    clinician = library.member("clinician")
    assert clinician.rubric
    reason = {"reason": "Likely to judge it best."}
    before = clinician.model_copy(update={"persona": clinician.persona.model_copy(update=reason)})
    topic = before.persona.topics[0]
    shown = Page(render_team(Team(members=(before,)))).text
    assert "Likely to judge it best." in shown
    assert topic in shown
    assert "From the library." in shown
    persona = before.persona.model_copy(update={"description": "Lets flats."})
    first, *others = clinician.rubric.criteria
    rubric = Rubric(
        criteria=(first.model_copy(update={"weight": first.weight + 20}), *others), reason="Stale."
    )
    edited = before.model_copy(update={"persona": persona, "rubric": rubric})
    page = " ".join(
        Page(render_team(Team(members=(edited,)))).text.split("The team as a file")[0].split()
    )
    assert not any(
        gone in page for gone in ("Likely to judge", f"Judges questions on {topic}", "Stale.")
    )
    assert "From the library; a person wrote its name and description and the weights." in page


def test_weights_are_shown_only_where_they_count() -> None:
    even = member("Nurse", ("a", ""), ("b", ""))
    page = Page(render_team(Team(members=(even,)))).text.split("The team as a file")[0]
    assert "50%" not in page
    assert "All criteria have the same weight." in page
    one, two = even.rubric.criteria if even.rubric else ()
    rubric = Rubric(
        criteria=(one.model_copy(update={"weight": 70}), two.model_copy(update={"weight": 30}))
    )
    page = Page(render_team(Team(members=(even.model_copy(update={"rubric": rubric}),)))).text
    assert "70%" in page


def test_members_without_criteria_are_said_first() -> None:
    open_team = Team(members=(VIROLOGIST, member("Nurse")))
    assert (
        "1 of 2 personas has no criteria; a model writes them" in Page(render_team(open_team)).text
    )
    assert "it cannot judge by criteria" in Page(render_team(open_team.lock())).text


def test_hostile_text_stays_text() -> None:
    bad = Member(
        persona=Persona(name=HOSTILE, description=HOSTILE, reason=HOSTILE, topics=(HOSTILE,)),
        rubric=Rubric(criteria=(Criterion(name=HOSTILE, description=HOSTILE),), reason=HOSTILE),
    )
    text = render_team(Team(members=(bad,), name=HOSTILE, description=HOSTILE), source=HOSTILE)
    page = Page(text)
    assert [name for name, _ in page.tags if name in {"script", "img"}] == ["script"]
    assert page.attributes("style") == page.attributes("src") == []
    assert all(each.startswith("#") for each in page.attributes("href"))


def test_a_huge_team_has_a_page_of_bounded_size_without_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Team(
        members=tuple(
            member(f"Persona {n}", *((f"c{n}-{k}", "word " * 100) for k in range(20)))
            for n in range(100)
        )
    )
    # Its YAML, which takes long, is not written.
    monkeypatch.setattr("personas.report.team_page.dumps", None)
    page = render_team(crowd)
    assert len(page.encode()) < 3_000_000
    assert "too large for this page to hold it as a file" in page


def test_the_last_line_says_when_and_by_what_command() -> None:
    page = render_team_page(TEAM, passages=1, words=1, date="2026-03-31", command="personas show")
    said = " ".join(Page(page).text.split())
    assert "Made on 2026-03-31 by MCRanker" in said
    assert said.endswith(": personas show")


def test_costs_are_those_of_the_method() -> None:
    costs = team_costs(TEAM, passages=20, words=100)
    assert [each.persona for each in costs.members] == ["NLP scientist", "Virologist", "Engineer"]
    assert [each.calls for each in costs.members] == [20, 20, 20]
    assert costs.total.calls == 60
    assert costs.total.cost is None  # of no model, nothing is known
    # Passages have some eight bytes a word, and four bytes are a token; the prompt comes on top.
    assert all(each.input_tokens > 20 * 100 * 2 for each in costs.members)
    twice = team_costs(TEAM, passages=40, words=100)
    assert [each.input_tokens for each in twice.members] == [
        pytest.approx(2 * each.input_tokens, rel=0.01) for each in costs.members
    ]


def test_the_price_of_a_model() -> None:
    model = ScriptedChat(
        lambda _: "", name="openai:gpt-5-mini", capabilities=Capabilities(json_schema=True)
    )
    costs = team_costs(TEAM, passages=10, words=50, model=model)
    assert costs.model == "openai:gpt-5-mini"
    assert costs.total.cost == pytest.approx(
        costs.total.input_tokens * 0.25e-6 + costs.total.output_tokens * 2e-6
    )
    unknown = ScriptedChat(lambda _: "", name="openai:no-such-model")
    assert team_costs(TEAM, passages=1, words=1, model=unknown).total.cost is None


@pytest.mark.parametrize(
    ("given", "said"), [((0, 1), "passages=0"), ((1, 10_001), "words=10001; give a number from 1")]
)
def test_numbers_out_of_range(given: tuple[int, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        team_costs(TEAM, passages=given[0], words=given[1])


def test_from_a_file_a_name_and_a_ranking(tmp_path: Path) -> None:
    save(TEAM, tmp_path / "team.yaml")
    html = tmp_path / "team.html"
    team_to_html(tmp_path / "team.yaml", html, passages=3, words=10)
    assert "Mask testers" in Page(html.read_text(encoding="utf-8")).text
    team_to_html("health_questions", html, passages=3, words=10)
    assert "Clinician" in Page(html.read_text(encoding="utf-8")).text
    saved = written(tmp_path / "m1.json", stored(FOUR, team=TEAM.model_dump(mode="json")))
    team_to_html(saved, html, passages=3, words=10)
    assert "Virologist" in Page(html.read_text(encoding="utf-8")).text
    typed = (
        "members:\n- persona: {name: A}\n  rubric:\n    criteria:\n"
        "    - {name: a, weight: 80}\n    - {name: b, weight: 65}\n"
    )
    (tmp_path / "typed.yaml").write_text(typed, encoding="utf-8")
    team_to_html(tmp_path / "typed.yaml", html, passages=3, words=10)
    page = Page(html.read_text(encoding="utf-8")).text
    assert "The weights of 'A' sum to 145 and are brought to 100: 'a' 80 → 55.2%" in page


def test_a_team_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        team_to_html(tmp_path / "gone.yaml", tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_compare_takes_rankings_values_and_files(tmp_path: Path) -> None:
    first, second = ranked(), ranked(ensemble="reciprocal_rank")
    saved = written(tmp_path / "m1.json", first.to_dict())
    for before in (first, first.to_dict(), first, saved, str(saved)):
        found = compare(before, second, grades={"a": 1})
        assert found.before.query.text == "best masks"
        assert [each.name for each in found.settings] == ["ensemble", "rank ties"]
    html = tmp_path / "moved.html"
    found.to_html(html)
    assert "What moved, and why" in Page(html.read_text(encoding="utf-8")).text
    out = io.StringIO()
    found.show(file=out)
    assert out.getvalue().startswith("best masks\n")


def test_compare_names_what_it_cannot_use(tmp_path: Path) -> None:
    good = stored(FOUR)
    with pytest.raises(InputError, match="after: this is no ranking"):
        compare(good, {})
    with pytest.raises(InputError, match=r"gone\.json: cannot be read"):
        compare(tmp_path / "gone.json", good)
    two = written(tmp_path / "two.jsonl", good, good)
    with pytest.raises(InputError, match=r"two\.jsonl: not JSON"):
        compare(two, good)
    with pytest.raises(InputError, match="the grade of 'd1'"):
        compare(good, stored(CHANGED), grades={"d1": "high"})  # type: ignore[dict-item]


def test_an_edited_team_asks_its_model_only_for_what_was_edited(tmp_path: Path) -> None:
    """What a person waits for between "I disagree" and what moved."""
    ledger = tmp_path / "ledger.db"
    asked: list[str] = []

    def score(request: Any) -> str:
        asked.append(request.tag.persona)
        return json.dumps({"Score": len(request.tag.doc_id)})

    def rank(team: Team) -> None:
        model = ScriptedChat(score, name="scripted:own")
        with MCRanker(team=team, model=model, ledger=ledger) as ranker:
            ranker.rank("best masks", DOCS)

    rank(TEAM)
    assert len(asked) == 3 * len(DOCS)
    asked.clear()
    edited = member("Engineer", ("Comfort", "Whether it can be worn all day."))
    rank(Team(members=(*TEAM.members[:2], edited), name="Mask testers"))
    assert set(asked) == {"Engineer"}
