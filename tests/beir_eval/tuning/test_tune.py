"""Weights from judgements: simulated teams with known weights, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import beir_eval
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.rankings import ranking_line
from beir_eval.measures.significance import paired_bootstrap
from beir_eval.tuning.scored import ScoredQueries, Weights
from mcranker import Capabilities, ChatReply, ChatRequest, MCRanker, Passage, Query, ScriptedChat
from personas import Criterion, Member, Persona, Rubric, Team, load, save
from personas.ensembles import Rule, descending
from personas.ranking.record import RankingRecord
from personas.ranking.types import Passage as Ranked
from personas.ranking.types import ScoreMatrix
from tests.support.commands import call
from tests.support.run_folders import folder_of, make_run_folders

TRUE_PERSONAS = np.array([0.45, 0.35, 0.15, 0.05])
TRUE_CRITERIA = np.array([[60, 30, 10], [20, 20, 60], [34, 33, 33], [50, 40, 10]]) / 100
EQUAL = np.full((4, 3), 1 / 3)
CONFIG = {"ensemble": "sum", "scale": 10, "missing_policy": "mean_of_team"}


def team_of(criteria: int = 3, personas: int = 4) -> Team:
    rubric = Rubric(
        criteria=tuple(Criterion(name=f"c{place}", weight=1) for place in range(criteria))
    )
    return Team(
        members=tuple(
            Member(persona=Persona(name=f"Judge {place}"), rubric=rubric)
            for place in range(personas)
        ),
        name="Four",
    )


@dataclass(frozen=True)
class Simulated:
    """A run folder of simulated scores; the best passages by the true weights are relevant."""

    folder: Path
    records: list[RankingRecord]

    @classmethod
    def at(
        cls,
        out: Path,
        queries: int,
        personas: np.ndarray = TRUE_PERSONAS,
        criteria: np.ndarray = TRUE_CRITERIA,
        *,
        missing: float = 0.0,
        teams: Sequence[Team] = (),
    ) -> Simulated:
        make_run_folders(out, labels=("MC",), queries=2, passages=2)
        folder, rng = folder_of(out, "scifact", "MC"), np.random.default_rng(3)
        (template,) = list(beir_eval.RunFolder.open(folder).rankings())[:1]
        records, grades = [], ["query-id\tcorpus-id\tscore"]
        for number in range(queries):
            given = (10 * rng.random((20, 4, 3))).round(3)
            values = given @ np.full(3, 1 / 3)
            truth = (given * criteria).sum(axis=2) @ personas + rng.normal(0, 0.3, 20)
            best = np.argsort(-truth)[:3]
            grades += [f"q{number}\td{place}\t{2 if not n else 1}" for n, place in enumerate(best)]
            lost = rng.random((20, 4)) < missing
            values[lost] = np.nan
            matrix = ScoreMatrix(
                values,
                dict.fromkeys(((i, j) for i, j in np.argwhere(lost).tolist()), "no score"),
                {(i, j): tuple(given[i, j].tolist()) for i, j in np.argwhere(~lost).tolist()},
            )
            final = Rule.of(CONFIG).final(values, np.arange(20), [None] * 20)
            team = teams[number % len(teams)] if teams else team_of()
            records.append(
                replace(
                    template,
                    query=Query(f"query {number}", f"q{number}"),
                    passages=tuple(Ranked(f"d{place}", f"t{place}") for place in range(20)),
                    order=descending(final),
                    final=final,
                    matrix=matrix,
                    personas=team.names,
                    team=team,
                    config=CONFIG,
                    relevances={},
                )
            )
        (folder / "rankings.jsonl").write_bytes(b"".join(map(ranking_line, records)))
        (folder.parent / "data" / "qrels.tsv").write_text("\n".join(grades) + "\n")
        return cls(folder, records)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_known_weights_are_recovered(tmp_path: Path, missing: float) -> None:
    simulated = Simulated.at(tmp_path, 300, missing=missing)
    tuned = beir_eval.tune([simulated.folder])
    shares = np.array([tuned.team.shares[name] for name in tuned.team.names]) / 100
    assert np.abs(shares - TRUE_PERSONAS).max() < 0.06
    rubrics = [each.rubric for each in tuned.team.members]
    found = np.array([[c.weight / 100 for c in rubric.criteria] for rubric in rubrics if rubric])
    # What a criterion counts in all is known best: 12 weights, each off by less than 0.05.
    assert np.abs(shares[:, None] * found - TRUE_PERSONAS[:, None] * TRUE_CRITERIA).max() < 0.05
    assert tuned.gain.interval.low > 0.02
    assert tuned.gain.is_shown
    assert tuned.notes == ()
    assert tuned.gain.wins + tuned.gain.ties + tuned.gain.losses == 300
    differences = [after - before for _, before, after in tuned.per_query.values()]
    assert tuned.gain.difference == pytest.approx(math.fsum(differences) / 300)
    assert "held-out gain +0." in tuned.team.weights_from
    assert "300 judged queries of scifact (test)" in tuned.team.weights_from


def test_where_all_count_alike_no_gain_is_claimed(tmp_path: Path) -> None:
    simulated = Simulated.at(tmp_path, 100, np.full(4, 0.25), EQUAL)
    tuned = beir_eval.tune([simulated.folder])
    assert not tuned.gain.is_shown
    assert tuned.notes[0].startswith("No gain is shown")
    assert tuned.team.weights_from.endswith("no gain is shown")
    again = beir_eval.tune([simulated.folder])
    assert (again.team, again.gain) == (tuned.team, tuned.gain)


def test_measures_are_those_of_the_project(tmp_path: Path) -> None:
    simulated = Simulated.at(tmp_path, 20, missing=0.2)
    run = beir_eval.RunFolder.open(simulated.folder)
    qrels = run.data().qrels()
    data = ScoredQueries.of(list(run.rankings()), qrels.values(), Rule.of(CONFIG))
    ranked = {each.query.id: each.run for each in run.rankings()}
    expected = beir_eval.evaluate(ranked, qrels).per_query["nDCG@10"]
    found = data.ndcg(Weights.of(team_of(), [True] * 4))
    assert found == pytest.approx(np.array(list(expected.values())), abs=1e-12)


def test_query_without_passages_is_left_out(tmp_path: Path) -> None:
    simulated = Simulated.at(tmp_path, 12)
    nothing = RankingRecord.from_dict(
        simulated.records[0].to_dict() | {"hits": [], "team": None, "personas": [], "config": {}}
    )
    lines = [replace(nothing, query=Query("unheard of", "q0")), *simulated.records[1:]]
    (simulated.folder / "rankings.jsonl").write_bytes(b"".join(map(ranking_line, lines)))
    assert "q0" not in beir_eval.tune([simulated.folder], anyway=True).per_query


def test_too_few_queries_are_refused_or_nothing_is_claimed(tmp_path: Path) -> None:
    simulated = Simulated.at(tmp_path, 30)
    with pytest.raises(RunFolderError, match=r"30 judged queries; a claim takes 50.* \(80% power"):
        beir_eval.tune([simulated.folder])
    tuned = beir_eval.tune([simulated.folder], anyway=True)
    assert tuned.notes[0].startswith("Nothing is shown: 30 judged queries")
    assert tuned.team.weights_from.endswith("nothing is shown")
    page = beir_eval.render_tuned(tuned)
    assert page.index("Nothing is shown") < page.index("Weights before and after")


def test_what_cannot_be_tuned_is_refused(tmp_path: Path) -> None:
    other = team_of().model_copy(update={"members": team_of(personas=5).members[1:]})
    differing = Simulated.at(tmp_path / "a", 4, teams=[team_of(), other])
    with pytest.raises(RunFolderError, match=r"has another team than 'q0'.*--team NAME"):
        beir_eval.tune([differing.folder])
    same = Simulated.at(tmp_path / "b", 12)
    with pytest.raises(SettingError, match="folds=1"):
        beir_eval.tune([same.folder], folds=1)
    fused = replace(same.records[0], config={**CONFIG, "ensemble": "rrf"})
    (same.folder / "rankings.jsonl").write_bytes(ranking_line(fused))
    with pytest.raises(RunFolderError, match='ensemble="sum"'):
        beir_eval.tune([same.folder])


def test_bootstrap() -> None:
    # All differences the same: each resample has that mean. 2 (0 + 1) / (999 + 1) = 0.002.
    interval, p_value = paired_bootstrap([0.25] * 8, draws=999)
    assert (interval.low, interval.high, p_value) == (0.25, 0.25, 0.002)
    # As many up as down: half of the means are on either side.
    interval, p_value = paired_bootstrap([1.0, -1.0] * 50)
    assert interval.low == pytest.approx(-interval.high, abs=0.05)
    assert p_value > 0.9
    # The normal approximation: 1.96 times 1 / sqrt(100).
    assert interval.high == pytest.approx(0.196, abs=0.02)


def judge(request: ChatRequest) -> ChatReply:
    """Scores by criterion; Judge 0's first one is the number of the passage's document."""
    number = int(request.tag.doc_id[1:])
    if request.tag.persona == "Judge 0":
        return ChatReply(f'{{"Scores": [{number}, {(3 * number + 1) % 10}]}}')
    return ChatReply(f'{{"Scores": [{(7 * number + 2) % 10}, {(number * number) % 10}]}}')


def test_the_written_team_ranks_as_predicted(tmp_path: Path) -> None:
    chat = ScriptedChat(judge, capabilities=Capabilities())
    team, rng = team_of(criteria=2, personas=2), np.random.default_rng(1)
    queries = {
        f"q{n}": [
            Passage(f"d{d}", f"text {d}", score=float(s))
            for d, s in zip(rng.permutation(10)[:6], range(6, 0, -1), strict=True)
        ]
        for n in range(12)
    }
    options = {"scoring": "per_criterion", "first_stage_weight": 0.2}

    def ranked(team: Team | Path) -> list[RankingRecord]:
        with MCRanker(team=team, model=chat, ledger=None, **options) as ranker:  # type: ignore[arg-type]
            return [ranker.rank(Query(f"text of {each}", each), d) for each, d in queries.items()]

    make_run_folders(tmp_path, labels=("MC",), queries=2, passages=2)
    folder = folder_of(tmp_path, "scifact", "MC")
    before = ranked(team)
    (folder / "rankings.jsonl").write_bytes(b"".join(map(ranking_line, before)))
    rows = [f"{each}\t{d.id}\t{int(d.id[1:]) // 4}" for each, docs in queries.items() for d in docs]
    qrels = tmp_path / "other.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n" + "\n".join(rows) + "\n")
    outputs = {"out": tmp_path / "team.yaml", "html": tmp_path / "page.html"}
    args = [str(folder), "--qrels", str(qrels), "--anyway", "--output", "json", "-q"]
    args += [each for name, path in outputs.items() for each in (f"--{name}", str(path))]
    result = call("personas", "tune", *args)
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    # Judge 0 knows the grades, by its first criterion.
    written = load(Team, outputs["out"])
    assert written.shares["Judge 0"] > 50
    assert "nothing is shown" in written.weights_from
    assert not said["gain"]["shown"]
    grades = beir_eval.RunFolder.open(folder)  # the folder is as it was
    assert [each.team for each in grades.rankings()] == [team] * 12
    after = ranked(outputs["out"])
    values = {q: {d.id: int(d.id[1:]) // 4 for d in docs} for q, docs in queries.items()}
    found = beir_eval.evaluate({each.query.id: each.run for each in after}, values)
    assert found.means["nDCG@10"] == pytest.approx(said["fitted"], abs=1e-12)
    assert [each.ids for each in after] != [each.ids for each in before]
    # And at no call, from the rankings that are there: the persona's weights alone.
    personas = Team(
        members=tuple(
            each.model_copy(update={"weight": now.weight})
            for each, now in zip(team.members, written.members, strict=True)
        )
    )
    save(personas, tmp_path / "personas.yaml")
    kept = [replace(each, team=personas) for each in before]
    assert [each.reensemble().ids for each in kept] == [  # type: ignore[attr-defined]
        each.ids for each in ranked(tmp_path / "personas.yaml")
    ]
