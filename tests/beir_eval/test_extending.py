"""The examples of ``docs/extending.md``, as a package that is installed beside this one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from mcranker import (
    ChatRequest,
    ConfigError,
    DirectRanker,
    MCRanker,
    Query,
    RankerConfig,
    Ranking,
    ReplyError,
    ScriptedChat,
    connect,
)
from mcranker.llm.prices import cost
from mcranker.llm.provider import PROVIDERS
from mcranker.rankers import RANKERS
from mcranker.replies.scoring import SCORINGS
from personas.ensembles import ENSEMBLES
from personas.ranking.record import RankingRecord
from personas.ranking.usage import Usage
from personas.registry import Registry
from tests.support.cli_support import answer
from tests.support.commands import call
from tests.support.loopback import Body, clean_environment, completion, serve_in_thread
from tests.support.plugins import installed as plugin

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
DOCS = ["cloth masks", "N95 masks filter best", "gloves"]
QUERY = "best masks"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the installed package, as the page says it."""
    folder = tmp_path_factory.mktemp("site")
    for text in re.findall(r"```python\n(# my_\w+\.py\n.*?)```", PAGE, re.DOTALL):
        (folder / text.split()[1]).write_text(text, encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    groups = tomllib.loads(toml)["project"]["entry-points"]
    broken = {"gone": "nowhere_to_be:Found", "odd": "json:loads"}
    groups["mcranker.rankers"] |= broken
    groups["mcranker.models"] |= {**broken, "blank": "my_broken:BLANK"}
    (folder / "my_broken.py").write_text(
        "from mcranker import Provider\nBLANK = Provider(connect=lambda name, **options: options)\n"
    )
    info = folder / "my_rankers-1.0.dist-info"
    info.mkdir()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in groups.items()
    ]
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-rankers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is there in this process."""
    monkeypatch.syspath_prepend(package)
    registries: tuple[Registry[Any], ...] = (RANKERS, SCORINGS, ENSEMBLES, PROVIDERS)
    for registry in registries:
        vars(registry).pop("_added", None)
    yield
    for registry in registries:
        vars(registry).pop("_added", None)


def whole(ranking: Ranking, path: Path) -> None:
    """The ranking can be stored, read, printed, and shown."""
    assert Ranking.from_dict(json.loads(ranking.to_json())).to_dict() == ranking.to_dict()
    assert len(ranking.to_trec().splitlines()) == len(ranking)
    ranking.to_html(path / "page.html")
    ranking.show(file=(shown := StringIO()))
    for page in (shown.getvalue(), (path / "page.html").read_text(encoding="utf-8")):
        # Of scores that no judge gave, nobody knows how high they could be.
        assert ("rom 0 to " in page) == bool(ranking.personas)


@pytest.mark.usefixtures("installed")
def test_a_ranker_without_a_model(tmp_path: Path) -> None:
    with RANKERS.get("overlap")(depth=2) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
        assert ranker.estimate(QUERY, DOCS).calls == 0
        assert list(ranker.rank(QUERY, [])) == []
    # Both words, one of them; the third passage is beyond the depth.
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("1", 2.0), ("0", 1.0), ("2", None)]
    assert (ranking.ranker, ranking.models, ranking.config["depth"]) == ("overlap", {}, 2)
    assert set(ranking.seconds) == {"total"}
    whole(RANKERS.get("overlap")().rank(Query(QUERY, "q1"), DOCS), tmp_path)


@pytest.mark.usefixtures("installed")
def test_a_ranker_that_asks_for_an_order(tmp_path: Path) -> None:
    asked: list[ChatRequest] = []

    def reply(request: ChatRequest) -> str:
        asked.append(request)
        return "no idea" if "odd" in request.messages[0].content else '{"Order": [1, 7, 0]}'

    with RANKERS.get("listwise")(model=ScriptedChat(reply), max_tokens=99) as ranker:
        estimate = ranker.estimate(QUERY, DOCS)
        ranking = ranker.rank(Query(QUERY, "q1"), DOCS)
        rest = sorted(ranker.rank_many([("odd", DOCS), (QUERY, DOCS)]), key=lambda one: one.place)
    assert (estimate.calls, ranking.usage.calls, asked[0].max_tokens) == (1, 1, 99)
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("1", None), ("0", None), ("2", None)]
    assert ranking.models == {"scoring": "scripted:function"}
    assert isinstance(rest[0].error, ReplyError)
    assert rest[1].result().ids == ranking.ids
    whole(ranking, tmp_path)


def graded(request: ChatRequest) -> str:
    """Two words of a passage are highly relevant; at first, it says so in another form."""
    if request.tag.stage != "score":
        return answer(request)
    assert "How relevant is the passage: irrelevant, related, " in request.messages[0].content
    if "gloves" in str(request.messages):
        return '{"Grade": "irrelevant"}' if len(request.messages) > 1 else "not at all"
    return '{"Grade": "highly relevant"}'


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", [MCRanker, DirectRanker])
def test_a_scoring_scheme(kind: type[MCRanker | DirectRanker], tmp_path: Path) -> None:
    config = RankerConfig(scoring="grades")
    with kind(config, model=ScriptedChat(graded)) as ranker:
        estimate = ranker.estimate(QUERY, DOCS)
        ranking = ranker.rank(Query(QUERY, "q1"), DOCS)
    judges = len(ranking.personas)
    assert [hit.score for hit in ranking] == [2.0 * judges, 2.0 * judges, 0.0]
    # Each judge is asked again about the gloves.
    assert ranking.usage.calls == estimate.calls + judges
    assert ranking.usage.unreadable == judges
    assert (ranking.config["scoring"], ranking.config["scale"]) == ("grades", 3)
    assert RankingRecord.of(ranking.to_dict()).top == 3
    whole(ranking, tmp_path)


@pytest.mark.usefixtures("installed")
def test_an_ensemble() -> None:
    options: dict[str, Any] = {"ensemble": "median"}
    with MCRanker(model=ScriptedChat(answer), **options) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
        assert ranker.estimate(QUERY, DOCS).calls == ranking.usage.calls
    # The three score alike, by the length of the passage's id.
    assert [hit.score for hit in ranking] == [1.0, 1.0, 1.0]
    assert ranking.config["ensemble"] == "median"


@pytest.mark.usefixtures("installed")
def test_a_provider(tmp_path: Path) -> None:
    def reply(body: Body) -> Body:
        assert body["model"] == "small"
        return completion('{"Score": 7}')

    with serve_in_thread(reply) as server:
        options: dict[str, Any] = {"base_url": server.url, "max_cost": 0.5}
        with DirectRanker(model="acme:small", ledger=tmp_path / "l.db", **options) as ranker:
            assert ranker.models.scoring.capabilities.label_logprobs
            ranking = ranker.rank(QUERY, DOCS)
        assert len(server.requests) == 3
    usage = ranking.usage
    assert ranking.models == {"scoring": "acme:small"}
    # 0.10 and 0.40 US dollars a million tokens
    expected = (0.10 * usage.input_tokens + 0.40 * usage.output_tokens) / 1e6
    assert ranking.cost == pytest.approx(expected)
    assert expected > 0
    assert cost("acme:huge", Usage(1, 100, 0, 10)) is None
    with pytest.raises(ConfigError, match=r"embed:NAME, .*acme:NAME.*mean 'acme:small'"):
        connect("acmee:small")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("overlp", "there is no ranker 'overlp'; did you mean 'overlap'?"),
        ("gone", "the ranker 'gone' cannot be loaded from 'nowhere_to_be:Found'"),
        ("odd", "'json:loads' is a function and no ranker"),
        ("gone:m", "the provider 'gone' cannot be loaded from 'nowhere_to_be:Found'"),
        ("odd:m", "'json:loads' is a function and no provider"),
        ("blank:m", "the provider 'blank' made a dict, no ChatModel"),
    ],
)
def test_what_does_not_work_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        (connect if ":" in name else RANKERS.get)(name)


OWN_PROTOCOL = """
from mcranker import Capabilities, ChatReply, Provider, RateLimited, Usage

class OwnChat:
    capabilities = Capabilities()

    def __init__(self, name, *, base_url, api_key, timeout, concurrency):
        self.name, self.endpoint = f"own:{name}", base_url or "https://own.example"
        self.asked = 0

    async def complete(self, request):
        self.asked += 1
        if self.asked == 1:
            raise RateLimited("slow down", model=self.name, retry_after=0.001)
        return ChatReply("7", Usage(calls=1, input_tokens=100, output_tokens=1), model="own-1")

    async def aclose(self):
        pass

OWN = Provider(connect=OwnChat, price=lambda name, usage: 1e-6 * usage.input_tokens)
"""


def test_a_provider_with_a_protocol_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_LEDGER", str(tmp_path / "ledger"))
    with plugin(tmp_path, PROVIDERS, OWN_PROTOCOL, own="OWN"):
        rankings = []
        for _ in range(2):
            with DirectRanker(model="own:x") as ranker:
                rankings.append(ranker.rank(QUERY, DOCS))
        cost_of_first = rankings[0].cost
    first, second = rankings
    # The refused call is asked again; 100 tokens for each of three passages.
    assert [hit.score for hit in first] == [7.0, 7.0, 7.0]
    assert cost_of_first == pytest.approx(300e-6)
    assert (first.usage.calls, second.usage.calls, second.reused.calls) == (3, 0, 3)


def test_a_verb(package: Path) -> None:
    """In a process of its own, as verbs are looked for once."""
    done = subprocess.run(
        [sys.executable, "-m", "mcranker", "words", "best masks against covid"],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (package, ROOT)))},
        timeout=120,
    )
    assert done.stdout == b"4\n"


@pytest.mark.usefixtures("installed")
def test_commands_know_them_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)
    monkeypatch.setenv("MCRANKER_LEDGER", "none")
    providers = done("mcranker", "models", "--output", "json")["providers"]
    acme = {"prefix": "acme", "key_variable": "ACME_API_KEY", "note": "a model of Acme"}
    assert acme in providers
    assert next(one for one in providers if one["prefix"] == "gone")["note"].startswith("the prov")
    rank = ("mcranker", "rank", QUERY, *DOCS, "--output", "json", "--ranker")
    assert done(*rank, "overlap")["ranking"]["ranker"] == "overlap"

    def reply(body: Body) -> Body:
        schema = body["response_format"]["json_schema"]["name"]
        return completion({"grade": '{"Grade": "related"}', "order": '{"Order": [2]}'}[schema])

    with serve_in_thread(reply) as server:
        at = ("--model", "openai:test", "--base-url", server.url)
        graded = done(*rank, "direct", "--scoring", "grades", *at)["ranking"]
        assert [hit["score"] for hit in graded["hits"]] == [1.0, 1.0, 1.0]
        assert done(*rank, "listwise", "--dry-run", *at)["estimate"]["calls"] == 1
        assert len(server.requests) == 3
        listed = done(*rank, "listwise", *at)["ranking"]
    assert [hit["doc_id"] for hit in listed["hits"]] == ["2", "0", "1"]
    suite = tmp_path / "mine.toml"
    suite.write_text(
        'title = "Mine"\ndatasets = ["mini"]\ndepth = 5\n'
        '[[rankers]]\nlabel = "words"\nranker = "overlap"\n'
    )
    out = tmp_path / "runs"
    ran = call("beir-eval", "run", suite, "--limit", "2", "--out", out, "--quiet")
    assert ran.exit_code == 0, ran.stderr
    manifest = json.loads((out / "mini" / "words" / "manifest.json").read_text())
    assert (manifest["ranker"], set(manifest["models"].values())) == ("overlap", {"none"})
    assert call("beir-eval", "report", out, "--out", tmp_path / "report").exit_code == 0
    assert "words" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert call("personas", "report", out, "--out", tmp_path / "why").exit_code == 0


def done(*command: object) -> Any:
    """The JSON that a command prints."""
    result = call(str(command[0]), *command[1:])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
