"""A PyTerrier experiment: BM25, and BM25 reranked by a team of personas.

pip install ".[pyterrier,local,eval]"
python examples/pyterrier_experiment.py                    # embedded local model
python examples/pyterrier_experiment.py openai:gpt-6-luna  # needs OPENAI_API_KEY

BM25 is the project's own here, so that no Java is needed; `pt.terrier.Retriever` goes as well.
"""

from __future__ import annotations

import sys

import pandas as pd
import pyterrier as pt

import beir_eval
from mcranker.integrations.pyterrier import MCRankerTransformer

MINI = beir_eval.load("mini")


class BM25(pt.Transformer):
    """BM25 over the mini collection, with titles and texts."""

    def __init__(self) -> None:
        super().__init__()
        texts = ((name, f"{doc.title} {doc.text}") for name, doc in MINI.corpus.items())
        self.index = beir_eval.BM25(texts)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        pt.validate.query_frame(inp, extra_columns=["query"])
        rows = [
            (row.qid, row.query, name, score, rank, MINI.corpus[name].title, MINI.corpus[name].text)
            for row in inp.itertuples()
            for rank, (name, score) in enumerate(self.index.search(row.query, 20))
        ]
        columns = ["qid", "query", "docno", "score", "rank", "title", "text"]
        return pd.DataFrame(rows, columns=columns)


def main() -> None:
    options = {"model": sys.argv[1]} if len(sys.argv) > 1 else None
    bm25 = BM25()
    team = MCRankerTransformer(options=options, title="title")
    topics = pd.DataFrame(MINI.queries.items(), columns=["qid", "query"])
    qrels = pd.DataFrame(
        [
            (query_id, doc_id, grade)
            for query_id, grades in MINI.qrels.items()
            for doc_id, grade in grades.items()
        ],
        columns=["qid", "docno", "label"],
    )
    measures = pt.Experiment(
        [bm25, bm25 >> team],
        topics,
        qrels,
        ["ndcg_cut_10", "recip_rank"],
        names=["BM25", "BM25 >> team"],
        baseline=0,
        plan="tree",  # BM25 searches once
    )
    print(measures.round(3).to_string(index=False))
    team.close()


if __name__ == "__main__":
    main()
