"""A report appears whole or not at all, and leaves no process behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beir_eval.errors import BeirEvalError, SettingError
from beir_eval.persona_report import build
from beir_eval.persona_report.build import write_persona_report
from tests.support.persona_reports import content, runs, team_of

SECONDS = 60  # after which a process counts as stuck
SCRIPT = """
import os, signal, sys
from beir_eval.persona_report.build import write_persona_report

def progress(done, total):
    if {when}:
        {deed}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    write_persona_report([sys.argv[1]], sys.argv[2], processes=2, progress=progress)
"""

posix = pytest.mark.skipif(sys.platform == "win32", reason="no process groups")


def write(folder: Path, out: Path, **options: Any) -> None:
    write_persona_report([folder], out, **{"processes": 1, **options})


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


def run_script(
    tmp_path: Path, made: Path, *, when: str, deed: str
) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(when=when, deed=deed))
    # Workers hold the pipes as well, so that this returns only when all of them have ended.
    return subprocess.run(
        [sys.executable, str(script), str(made), str(tmp_path / "out")],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


@posix
def test_a_killed_build_leaves_the_old_report_and_no_process(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs", queries=35, passages=1)
    write(team_of(made), tmp_path / "out", against="none")
    before = content(tmp_path / "out")
    done = run_script(tmp_path, made, when="done", deed="os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -signal.SIGKILL
    assert content(tmp_path / "out") == before
    assert write_persona_report([made], tmp_path / "out", processes=1).pages > 35


@posix
def test_ctrl_c_reaches_all_processes_and_only_one_answers(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs", queries=35, passages=1)
    done = run_script(tmp_path, made, when="0 < done < total", deed="os.killpg(0, signal.SIGINT)")
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "script.py"]


def end(chunk: object) -> Any:
    os._exit(1)


def test_a_worker_that_ends_is_an_error() -> None:
    with (
        pytest.raises(BeirEvalError, match="one of 2 worker processes ended before its work"),
        build._workers(2, 100) as mapped,
    ):
        list(mapped(end, [None] * 3))  # type: ignore[list-item] # a chunk is not looked at
