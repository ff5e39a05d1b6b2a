"""Comparisons as Python has them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import InputError, MCRanker, ScriptedChat, compare
from personas import Criterion, Member, Persona, Rubric, Team, library
from tests.personas.ranking.test_comparison import CHANGED
from tests.personas.ranking.test_inspection import FOUR, stored
from tests.support.inspection_report import DOCS, Page, ranked


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


def test_compare_takes_rankings_values_and_files(tmp_path: Path) -> None:
    first, second = ranked(), ranked(ensemble="reciprocal_rank")
    saved = written(tmp_path / "m1.json", first.to_dict())
    for before in (first, first.to_dict(), first, saved, str(saved)):
        found = compare(before, second, grades={"a": 1})
        assert found.before.query.text == "best masks"
        assert [each.name for each in found.settings] == ["ensemble"]
    html = tmp_path / "moved.html"
    found.to_html(html)
    assert "What moved, and whose scores did it" in Page(html.read_text(encoding="utf-8")).text
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
    """The time of one person between "I disagree" and what moved."""
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
