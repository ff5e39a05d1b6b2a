"""`mcranker.scale`: rows of a dataset, ranked by actors; with Ray where it is installed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcranker import ConfigError, Ranking
from mcranker.rankers.direct import DirectRanker
from mcranker.scale import QueryActor, check_machines, rank_dataset
from tests.support.loopback import Answer, Loopback, completion, openai_error, serve_in_thread
from tests.support.postgres import database_of

pytestmark = pytest.mark.anyio

DOCS = [{"_id": f"d{n}", "text": f"Cat number {n} purrs.", "title": None} for n in range(3)]
ROWS: list[dict[str, Any]] = [
    {"query_id": "good", "query": "cat?", "docs": DOCS},
    {"query_id": "refused", "query": "dog?", "docs": DOCS},
    {"query_id": "empty", "query": None, "docs": DOCS},
]
SCORES = {"number 0": 2, "number 1": 9, "number 2": 5}


def answer(body: Any) -> Any:
    asked = body["messages"][-1]["content"]
    if "dog?" in asked:
        return Answer(400, openai_error("no dogs here"))
    score = next(score for name, score in SCORES.items() if name in asked)
    return completion(json.dumps({"Score": score}))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve_in_thread(answer) as running:
        yield running


def options(server: Loopback, ledger: object) -> dict[str, Any]:
    return {"model": "openai:m", "base_url": server.url, "ledger": str(ledger)}


async def test_an_actor_gives_each_query_its_row(server: Loopback, tmp_path: Path) -> None:
    given = options(server, tmp_path / "l.sqlite")
    good, bad, empty = await QueryActor(DirectRanker, given, socket.gethostname()).rank(ROWS)
    assert (good["query_id"], good["doc_ids"]) == ("good", ["d1", "d2", "d0"])
    assert good["scores"] == [9, 5, 2]
    assert (good["error"], good["calls"], good["reused"]) == (None, 3, 0)
    assert Ranking.from_dict(json.loads(good["ranking"])).ids == good["doc_ids"]
    assert (bad["query_id"], bad["missing"], bad["scores"]) == ("refused", 3, [None] * 3)
    assert (empty["query_id"], empty["error"]) == ("empty", "InputError")
    assert "scores" not in empty

    asked = len(server.requests)
    (again,) = await QueryActor(DirectRanker, given, socket.gethostname()).rank(ROWS[:1])
    assert (again["calls"], again["reused"], again["scores"]) == (0, 3, [9, 5, 2])
    assert len(server.requests) == asked


async def test_an_actor_that_cannot_rank_says_so_in_each_row(tmp_path: Path) -> None:
    elsewhere = QueryActor(DirectRanker, {"ledger": str(tmp_path / "l.sqlite")}, "other.example")
    rows = await elsewhere.rank(ROWS[:2])
    assert [row["error"] for row in rows] == ["ConfigError", "ConfigError"]
    assert "'other.example'" in rows[0]["message"]
    check_machines("postgresql://db.example/l", "other.example")


def test_without_ray_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[ray\]'"):
        rank_dataset(None)


# With Ray, in a process of its own: a driver takes the signals of its process, and prints.

DRIVER = """
import json, os, sys
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
import ray, ray.data
from mcranker.errors import ConfigError
from mcranker.scale import rank_dataset
rows, options, ledger = json.loads(sys.argv[1])
ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
ds = ray.data.from_items(rows)
refusals = []
for wrong, place in [({"max_cost": 1.0}, ledger), ({}, None)]:
    try:
        rank_dataset(ds, "direct", {**options, **wrong}, ledger=place)
    except ConfigError as error:
        refusals.append(str(error))
found = [rank_dataset(ds, "direct", options, ledger=ledger).take_all() for _ in range(2)]
print(json.dumps([refusals, *found]))
"""


def test_a_dataset_is_ranked_and_the_second_time_from_the_ledger(
    server: Loopback, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    given = options(server, tmp_path)
    del given["ledger"]
    sent = json.dumps([ROWS, given, database_of(tmp_path)])
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, sent], check=True, capture_output=True, timeout=300
    )
    refusals, first, second = json.loads(ran.stdout.splitlines()[-1])
    assert "max_cost=1.0" in refusals[0]
    assert "ledger=None" in refusals[1]
    found = {row["query_id"]: row for row in first}
    assert {name: row["error"] for name, row in found.items()} == {
        "good": None,
        "refused": None,
        "empty": "InputError",
    }
    assert (found["good"]["doc_ids"], found["good"]["scores"]) == (["d1", "d2", "d0"], [9, 5, 2])
    assert found["refused"]["missing"] == 3
    assert found["empty"]["scores"] is None
    again = next(row for row in second if row["query_id"] == "good")
    assert (again["calls"], again["reused"], again["scores"]) == (0, 3, [9, 5, 2])
    assert len([body for body in server.bodies if "cat?" in str(body)]) == 3
