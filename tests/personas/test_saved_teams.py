"""A saved ranking stands for the team that judged it; weights brought to 100 are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker.method.team_plan import as_team
from personas import Member, Persona, SchemaError, Team, library, load, save
from personas.files import load_any, weight_notes
from tests.personas.ranking.test_inspection import FOUR, stored

NURSES = Team(members=(Member(persona=Persona(name="Nurse")), library.member("clinician")))
OTHERS = Team(members=(Member(persona=Persona(name="Parent")),))


def ranking(team: Team | None = NURSES, **more: Any) -> dict[str, Any]:
    return stored(FOUR, team=None if team is None else team.model_dump(mode="json"), **more)


def written(path: Path, *values: object) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def envelope(**inside: object) -> dict[str, object]:
    return {"status": "ok", "exit_code": 0, "errors": [], **inside}


@pytest.mark.parametrize(
    "values",
    [
        [ranking()],
        [ranking(), ranking()],
        [envelope(ranking=ranking())],
        [envelope(rankings=[ranking(), ranking()])],
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_the_team_of_a_ranking(tmp_path: Path, values: list[object], suffix: str) -> None:
    path = written(tmp_path / f"saved{suffix}", *values)
    assert load(Team, path) == load_any(path) == as_team(str(path)) == as_team(path) == NURSES
    assert weight_notes(path) == ()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([ranking(None, ranker="direct")], "a ranking by 'direct', which has no team"),
        ([ranking(), ranking(OTHERS)], "has 2 rankings by 2 different teams"),
        ([ranking(version=7)], "a ranking of version 7"),
        ([{"hits": [], "team": {}}], "this is no ranking as Ranking.to_dict() makes it"),
        ([ranking(), "no object"], ""),
    ],
)
def test_a_ranking_whose_team_cannot_be_used(
    tmp_path: Path, values: list[object], said: str
) -> None:
    path = written(tmp_path / "saved.json", *values)
    if not said:  # what else stands in the file is not looked at
        assert load(Team, path) == NURSES
        return
    with pytest.raises(SchemaError) as caught:
        load(Team, path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_team_that_speaks_of_hits_is_a_team(tmp_path: Path) -> None:
    path = tmp_path / "team.json"
    team = NURSES.model_copy(update={"description": 'looks for "hits" and "version"'})
    save(team, path)
    assert load(Team, path) == team


TYPED = """\
members:
- persona: {name: Nurse}
  rubric:
    criteria:
    - {name: Fit, weight: 80}
    - {name: Price, weight: 40}
    - {name: Looks, weight: 25}
- clinician
- persona: {name: Parent}
"""


def test_weights_that_are_brought_to_100_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(TYPED, encoding="utf-8")
    ((place, note),) = weight_notes(path)
    assert place == ("members", 0, "rubric", "criteria")
    # 80, 40 and 25 of 145.
    assert note == (
        "the weights of 'Nurse' sum to 145 and are brought to 100: 80 becomes 55.2%, and so on"
    )
    as_team(path)
    assert caplog.messages == [f"{path}: {note}"]
