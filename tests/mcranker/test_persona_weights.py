"""Members of a team that count more than others: in rankings, files and views."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcranker import ConfigError, DirectRanker, MCRanker, Ranking
from personas import Member, Persona, Team, diff_teams, dumps, load, save
from personas.errors import SchemaError
from personas.files import loads
from tests.support.scripted import by_table, scripted

SCORES = {
    "Nurse": {"a": 7, "b": 9, "c": 2},
    "Buyer": {"a": 9, "b": 3, "c": 2},
    "Clerk": {"a": 0, "b": 0, "c": 10},
}
DOCS = {"a": "text a", "b": "text b", "c": "text c"}


def team(**weights: float) -> Team:
    members = [Member(persona=Persona(name=name), weight=to) for name, to in weights.items()]
    return Team(members=tuple(members))


def ranked(given: Team, **options: object) -> Ranking:
    model = scripted(by_table(SCORES))
    with MCRanker(team=given, model=model, criteria="none", ledger=None, **options) as ranker:  # type: ignore[arg-type]
        return ranker.rank("q", DOCS)


def test_by_hand_and_in_views(tmp_path: Path) -> None:
    ranking = ranked(team(Nurse=1, Buyer=3))
    # 0.5 * 7 + 1.5 * 9 = 17; 0.5 * 9 + 1.5 * 3 = 9; 0.5 * 2 + 1.5 * 2 = 4.
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("a", 17), ("b", 9), ("c", 4)]
    assert ranking[0].formula == "0.5 × 7 + 1.5 × 9 = 17"  # noqa: RUF001
    assert ranking[0].relevance == 0.85  # 17 of 20
    # Without Buyer b, with 9, is before a, with 7.
    assert ranking[0].rank_without == {"Nurse": 1, "Buyer": 2}
    assert ranking[0].effects["Buyer"] == 1
    again = Ranking.from_dict(ranking.to_dict())
    assert again.to_dict() == ranking.to_dict()
    assert again.reensemble(missing_policy="lowest").ids == ranking.ids
    ranking.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Counts 75%" in page
    assert "0.5 × 7 + 1.5 × 9 = 17" in page  # noqa: RUF001
    with pytest.raises(ConfigError, match='use ensemble="sum"'):
        again.reensemble("rrf")


def test_a_member_of_weight_0_is_not_asked() -> None:
    ranking = ranked(team(Nurse=1, Clerk=0, Buyer=1))
    assert ranking.personas == ("Nurse", "Buyer")
    assert ranking.usage.calls == 6
    with pytest.raises(ValueError, match="give one of them a positive weight"):
        team(Nurse=0, Clerk=0)


def test_what_does_not_combine_scores_by_persona_refuses_weights() -> None:
    unequal = team(Nurse=1, Buyer=3)
    with pytest.raises(ConfigError, match="'rrf' counts all alike"):
        ranked(unequal, ensemble="rrf")
    with pytest.raises(ConfigError, match="direct combines no scores of personas"):
        DirectRanker(team=unequal, model=scripted())


def test_files_digests_and_differences(tmp_path: Path) -> None:
    plain, weighted = team(Nurse=1, Buyer=1), team(Nurse=1, Buyer=3)
    save(weighted, tmp_path / "team.yaml")
    assert load(Team, tmp_path / "team.yaml") == weighted
    assert "weight" not in dumps(plain)
    # As written by the version before weights.
    assert plain.digest == "6082e63ed747"
    assert plain.digest != weighted.digest
    said = [line.said for line in diff_teams(plain, weighted).lines]
    assert said == ["Buyer", "weight: 1 → 3"]
    with pytest.raises(SchemaError, match="must be at least 0, not -1"):
        loads(Team, "members:\n- persona: {name: Nurse}\n  weight: -1\n")
