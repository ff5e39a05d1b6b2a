"""Which runs are reported, and with what each is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from beir_eval.errors import RunFolderError
from beir_eval.persona_report.sources import Source, find_sources
from tests.support.persona_reports import DIRECT, TEAM, change_manifest, runs, team_of
from tests.support.run_folders import table1

OTHER_SCALE, OTHER_TEAM = "DIRECT(0,20)", "MC: 1 recruit"


def pairs(sources: list[Source]) -> list[tuple[str, str | None]]:
    return [(each.title, each.other.manifest.label if each.other else None) for each in sources]


def found(*paths: Path, against: str | None = None) -> list[tuple[str, str | None]]:
    sources, _ = find_sources(paths, against)
    return pairs(sources)


def test_teams_come_first_and_are_compared_with_direct(tmp_path: Path) -> None:
    made = runs(tmp_path / "one", labels=[DIRECT, TEAM, OTHER_TEAM])
    assert found(made) == [(OTHER_TEAM, DIRECT), (TEAM, DIRECT), (DIRECT, None)]
    assert found(made / "scifact") == found(made)
    # DIRECT is found beside a single run; and the runs of a suite come in its order.
    assert found(team_of(made)) == [(TEAM, DIRECT)]
    made = runs(tmp_path / "two", labels=[DIRECT, TEAM, OTHER_TEAM], suite=table1)
    assert found(made) == [(TEAM, DIRECT), (OTHER_TEAM, DIRECT), (DIRECT, None)]
    # A label or a folder is compared with instead, or nothing.
    assert found(made, against=OTHER_TEAM) == [
        (TEAM, OTHER_TEAM),
        (OTHER_TEAM, None),
        (DIRECT, OTHER_TEAM),
    ]
    assert {other for _, other in found(made, against="none")} == {None}


def test_direct_of_other_data_is_no_measure(tmp_path: Path) -> None:
    made = runs(tmp_path)
    change_manifest(team_of(made, DIRECT), data="something else")
    assert found(team_of(made)) == [(TEAM, None)]
    with pytest.raises(RunFolderError, match="do not belong together"):
        found(made)


def test_direct_of_another_folder_serves_if_it_is_given(tmp_path: Path) -> None:
    one = runs(tmp_path / "one", labels=[TEAM])
    two = runs(tmp_path / "two", labels=[DIRECT])  # the same data, byte for byte
    assert found(one) == [(TEAM, None)]
    assert found(one, two) == [(TEAM, DIRECT), (DIRECT, None)]
    assert found(one, against=str(team_of(two, DIRECT))) == [(TEAM, DIRECT)]


def test_against_an_unknown_run(tmp_path: Path) -> None:
    made = runs(tmp_path)
    other = runs(tmp_path / "other", datasets=("news",))
    for name in ("nobody", str(other / "news" / "MC_2_recruits"), str(team_of(made))):
        with pytest.raises(RunFolderError) as error:
            found(team_of(made), against=name)
        assert str(error.value).startswith(f"no run {name!r} over the same data as ")
        assert f"there is {DIRECT!r}; give a label or a folder, or 'none'" in str(error.value)


def test_runs_without_rankings_are_left_out(tmp_path: Path) -> None:
    made = runs(tmp_path, labels=[DIRECT, TEAM, "MC: new"], unfinished=[("scifact", "MC: new")])
    sources, left_out = find_sources([made])
    assert pairs(sources) == [(TEAM, DIRECT), (DIRECT, None)]
    (sentence,) = left_out
    assert sentence.endswith("MC_new: nothing has been ranked yet, so it is left out")
    with pytest.raises(RunFolderError, match="nothing has been ranked yet; run the same"):
        find_sources([team_of(made, "MC: new")])
