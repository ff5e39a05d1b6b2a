"""The examples with the embedded model, and the README's lines as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcranker import ScriptedChat
from tests.support.adapting import ADAPTERS, QUERY, TEXTS, Haystack, by_word

ROOT = Path(__file__).parents[3]
EXAMPLES = {
    "langchain_rerank": "langchain_classic",
    "llamaindex_rerank": "llama_index.core",
    "haystack_rerank": "haystack",
    "pyterrier_experiment": "pyterrier",
}


def snippets() -> dict[str, str]:
    """Who is served -> lines, of the README's section."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page.partition("## Use it from …\n")[2].partition("\n## ")[0]
    found = re.findall(r"^(\w+)[^\n]*:\n\n```python\n(.*?)```", section, re.DOTALL | re.MULTILINE)
    return dict(found)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    model = ScriptedChat(by_word, name="scripted:tests")
    monkeypatch.setattr("mcranker.models.connect", lambda *_, **__: model)
    return snippets()


@pytest.mark.local_model
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_without_a_key(name: str, tmp_path: Path) -> None:
    pytest.importorskip(EXAMPLES[name])
    keys = {"MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
    environment = {name: value for name, value in os.environ.items() if name not in keys}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "HAYSTACK_TELEMETRY_ENABLED": "false"},
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    if name == "pyterrier_experiment":
        # 0.605 is BM25's nDCG@10 on the mini collection, as `mcranker demo` has it.
        header, first, team = (line.split() for line in done.stdout.splitlines()[-3:])
        assert header[:3] == ["name", "recip_rank", "ndcg_cut_10"]
        assert (first[0], first[2]) == ("BM25", "0.605")
        assert float(team[4]) > 0.605
        return
    hits = re.findall(r"^(\d\.\d{3})  was +\d+ .+$", done.stdout, re.MULTILINE)
    assert len(hits) == 5
    assert hits == sorted(hits, reverse=True)
    assert "'NLP scientist': " in done.stdout


def test_the_readme_has_lines_for_everybody() -> None:
    libraries = {adapter.__name__ for adapter in ADAPTERS}
    assert set(snippets()) == {"Python", *libraries, "Anything"}


def test_python(lines: dict[str, str]) -> None:
    found: dict[str, Any] = {"query": QUERY, "docs": list(TEXTS)}
    exec(lines["Python"], found)
    assert found["best"].ids == ["1", "0", "2"]


def test_langchain(lines: dict[str, str]) -> None:
    pytest.importorskip("langchain_classic")
    from tests.mcranker.integrations.test_langchain import Fixed
    from tests.support.adapting import LangChain

    found: dict[str, Any] = {"retriever": Fixed(found=LangChain().few())}
    exec(lines["LangChain"], found)
    assert [each.id for each in found["best"].invoke(QUERY)] == ["n", "c", "g"]
    found["compressor"].close()


def test_llamaindex(lines: dict[str, str]) -> None:
    pytest.importorskip("llama_index.core")
    from tests.mcranker.integrations.test_llamaindex import Fixed

    found: dict[str, Any] = {"query": QUERY, "retriever": Fixed()}
    exec(lines["LlamaIndex"], found)
    assert [each.node_id for each in found["best"]] == ["n", "c", "g"]
    found["postprocessor"].close()


def test_haystack(lines: dict[str, str]) -> None:
    pytest.importorskip("haystack")
    from haystack import Pipeline, component

    @component
    class Fixed:
        @component.output_types(documents=list[Any])
        def run(self, query: str) -> dict[str, Any]:
            return {"documents": Haystack().few()}

    pipeline = Pipeline(connection_type_validation=False)
    pipeline.add_component("retriever", Fixed())
    exec(lines["Haystack"], {"pipeline": pipeline})
    ran = pipeline.run({"retriever": {"query": QUERY}, "ranker": {"query": QUERY}})
    assert [each.id for each in ran["ranker"]["documents"]] == ["n", "c", "g"]
    pipeline.close()


@pytest.mark.filterwarnings("ignore:There are shared pipeline components")
def test_pyterrier(lines: dict[str, str]) -> None:
    pt = pytest.importorskip("pyterrier")
    from tests.mcranker.integrations.test_pyterrier import FOUND, QRELS, TOPICS

    ranks = FOUND.groupby("qid")["score"].rank(ascending=False).astype(int) - 1
    bm25 = pt.Transformer.from_df(FOUND.assign(rank=ranks))
    found = {"bm25": bm25, "topics": TOPICS, "qrels": QRELS}
    exec(lines["PyTerrier"], found)
    # BM25 finds the one relevant passage of q1 third: 1 / log2(4); the team puts it first.
    assert found["table"]["ndcg_cut_10"].tolist() == pytest.approx([(0.5 + 1) / 2, 1.0])
