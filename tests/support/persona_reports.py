"""Run folders and written reports, for the tests of reports over data sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson

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


def change_lines(path: Path, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """Replace each entry of a file, given its number from 0."""
    entries = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    lines = (orjson.dumps(change(place, each)) + b"\n" for place, each in enumerate(entries))
    path.write_bytes(b"".join(lines))


def unfinish(folder: Path, *, keep: int, torn: bytes = b"") -> None:
    """Make a run one that was stopped: the last `keep` rankings, reversed, then a torn line."""
    path = folder / "rankings.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)[-keep:]
    path.write_bytes(b"".join(reversed(lines)) + torn)
    (folder / "metrics.json").unlink()
    change_manifest(folder, finished=False)


def rename_ids(out: Path, names: Mapping[str, str]) -> None:
    """Give queries and documents other ids, in all files that a report reads."""

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return names.get(value, value)
        if isinstance(value, list):
            return [renamed(each) for each in value]
        if isinstance(value, dict):
            return {renamed(key): renamed(each) for key, each in value.items()}
        return value

    for path in out.rglob("*.jsonl"):
        change_lines(path, lambda _, entry: renamed(entry))
    for path in out.rglob("qrels.tsv"):
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        text = "".join("\t".join(map(renamed, row)) + "\n" for row in rows)
        path.write_text(text, encoding="utf-8")
    for path in out.rglob("metrics.json"):
        path.write_bytes(orjson.dumps(renamed(orjson.loads(path.read_bytes()))))


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
    finder = _Links()
    finder.feed(page.decode())
    return finder.found


def broken_links(report: Path) -> list[str]:
    """``PAGE -> LINK`` of each link to a file, or a place in a file, that is not there."""
    pages = {name: _page(each) for name, each in content(report).items() if name.endswith("html")}
    known_files = content(report).keys()
    broken = []
    for name, page in pages.items():
        for link in page.found:
            if link.startswith("data:"):
                continue  # a file that the page holds
            path, _, place = link.partition("#")
            target = (report / name).parent.joinpath(path).resolve() if path else report / name
            there = target.is_relative_to(report.resolve()) or not path
            key = target.resolve().relative_to(report.resolve()).as_posix() if there else ""
            # What stands behind an equals sign is the state of a table, for the page's script.
            known = key in known_files and (
                key not in pages or not place or "=" in place or place in pages[key].ids
            )
            if not known:
                broken.append(f"{name} -> {link}")
    return broken


def _page(content: bytes) -> _Links:
    finder = _Links()
    finder.feed(content.decode())
    return finder


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and value is not None:
                self.found.append(value)
            elif name == "id" and value is not None:
                self.ids.add(value)
