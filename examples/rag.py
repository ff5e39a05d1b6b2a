"""Answers with sources over a folder of documents, and over a retriever of your own.

pip install ".[local,rag]"
python examples/rag.py DOCUMENTS QUESTION                      # best sentences, embedded models
python examples/rag.py DOCUMENTS QUESTION openai:gpt-6-luna    # needs OPENAI_API_KEY
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcranker.rag import RAGPipeline, RAGResult

MASKS = Path(__file__).with_name("masks.jsonl")


def show(result: RAGResult) -> None:
    print(result.text or f"no answer: {result.failure}")
    for citation in result.citations:
        source = result.context[citation.passage - 1]
        print(f"  [{citation.passage}] {source.title or source.document}: {citation.quote!r}")
    for passage in result.passages:
        if passage.dropped:
            print(f"  dropped {passage.id}: {passage.dropped}")
    for stage in result.stages:
        print(f"  {stage.name}: {stage.seconds:.2f} s, {stage.calls} calls {stage.failure}")


def main() -> None:
    documents, question, model = [*sys.argv[1:], *([None] * 3)][:3]
    style = "cited" if model else "extract"
    with RAGPipeline.from_documents(
        documents or MASKS, "team", model=model, answer={"style": style}
    ) as pipeline:
        result = pipeline.answer(question or "Which masks protect best against COVID-19?")
    show(result)
    result.to_html("answer.html")


if __name__ == "__main__":
    main()
