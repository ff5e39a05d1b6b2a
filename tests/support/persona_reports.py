"""Run folders and written reports, for the tests of reports over data sets."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

from beir_eval.experiment.run_folder import Metrics, RunManifest
from beir_eval.files import write_form
from tests.support.run_folders import folder_of, make_run_folders, no_suite

DIRECT, TEAM = "DIRECT(0,10)", "MC: 2 recruits"
MEASURE = "nDCG@10"
NAMES = re.compile(
    r"(run-\d+/)?(index\.html"
    r"|figures\.json|query/\d{6,}(-\d+)?\.html|persona-report\.json)"
)
"""What the files of a report may be called: nothing that comes from outside."""


def runs(out: Path, **options: Any) -> Path:
    """Run folders of a team and of DIRECT over ``scifact``: 4 queries with 5 passages each."""
    return make_run_folders(out, **{"labels": [DIRECT, TEAM], "suite": no_suite, **options})


def team_of(out: Path, label: str = TEAM) -> Path:
    """The folder of a run of `runs`."""
    return folder_of(out, "scifact", label)


def metrics_of(folder: Path) -> float:
    """Mean nDCG@10 as it was measured when the run was made."""
    return Metrics.model_validate_json((folder / "metrics.json").read_bytes()).means[MEASURE]


def change_manifest(folder: Path, **fields: Any) -> None:
    """Replace fields of a run's manifest."""
    path = folder / "manifest.json"
    known = RunManifest.model_validate_json(path.read_bytes())
    write_form(path, known.model_copy(update=fields))


def unfinish(folder: Path, *, keep: int, torn: bytes = b"") -> None:
    """Make a run one that was stopped: the last `keep` rankings, reversed, then a torn line."""
    path = folder / "rankings.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)[-keep:]
    path.write_bytes(b"".join(reversed(lines)) + torn)
    (folder / "metrics.json").unlink()
    change_manifest(folder, finished=False)


def content(report: Path) -> dict[str, bytes]:
    """Path below the folder -> bytes; checks every name and size on the way."""
    found = {
        path.relative_to(report).as_posix(): path.read_bytes()
        for path in sorted(report.rglob("*"))
        if path.is_file()
    }
    assert all(NAMES.fullmatch(name) for name in found), sorted(found)
    assert all(len(each) < 1_000_000 for each in found.values())
    return found


def links(page: bytes) -> list[str]:
    """Where the links of a page lead."""
    found = re.findall(r"""<a\b[^>]*? href=("[^"]*"|[^\s>]*)""", page.decode())
    return [unescape(each.strip('"')) for each in found]
