"""Rank the queries of a Ray Dataset by two actors over one ledger.

pip install '.[ray,local]'
python examples/ray_dataset.py                    # embedded local model
python examples/ray_dataset.py openai:gpt-6-luna  # needs OPENAI_API_KEY
"""

import sys

import ray

from mcranker.scale import rank_dataset

PASSAGES = [
    {"id": "cloth", "text": "Cloth masks filter few of the particles that carry the virus."},
    {"id": "n95", "text": "N95 masks filter at least 95% of particles and seal against the face."},
    {"id": "hands", "text": "Hands are washed for twenty seconds."},
]


def main() -> None:
    ray.init("local", num_cpus=4, include_dashboard=False)
    queries = ray.data.from_items(
        [
            {"query_id": "1", "query": "best masks against covid", "docs": PASSAGES},
            {"query_id": "2", "query": "how long to wash hands", "docs": PASSAGES},
        ]
    )
    options = {"model": sys.argv[1] if len(sys.argv) > 1 else "local:minilm"}
    ranked = rank_dataset(queries, "direct", options, ledger="ledger.sqlite", actors=2)
    for row in sorted(ranked.take_all(), key=lambda row: row["query_id"]):
        print(row["query"], row["error"] or row["doc_ids"])


if __name__ == "__main__":
    main()
