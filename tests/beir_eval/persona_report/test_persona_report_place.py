"""A report appears whole or not at all, and leaves no process behind."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from beir_eval.errors import SettingError
from beir_eval.persona_report.build import write_persona_report
from tests.support.persona_reports import content, runs


def write(folder: Path, out: Path, **options: Any) -> None:
    write_persona_report([folder], out, **options)


def test_a_report_does_not_replace_the_runs_that_it_is_about(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(made, out)
    made.rename(out / "runs")
    before = sorted(out.rglob("*"))
    with pytest.raises(SettingError, match=r"holds the run .*, and would be replaced as a whole"):
        write(out / "runs", out)
    assert sorted(out.rglob("*")) == before


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return runs(tmp_path / "runs")


def test_a_former_report_is_replaced_as_a_whole(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()  # an empty folder is fine
    write(made, out)
    before = content(out)
    (out / "run-1" / "query" / "000099.html").write_text("old")
    write(made, out)
    assert content(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "runs"]


def test_what_is_no_report_is_not_replaced(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(SettingError, match="holds something else than a report"):
        write(made, out)
    with pytest.raises(SettingError, match="is a file; name a folder for the report"):
        write(made, out / "thesis.txt")
    with pytest.raises(SettingError, match="holds something else than a report"):
        write(made, made)
    assert (out / "thesis.txt").read_text() == "mine"
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_a_full_disk_leaves_the_old_report(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(made, tmp_path / "out")
    before = content(tmp_path / "out")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # writing tells no file's name

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="what was there is untouched") as error:
        write(made, tmp_path / "out", against="none")
    assert error.value.errno == errno.ENOSPC
    assert error.value.filename == str(tmp_path / "out")
    assert content(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "runs"]
