"""Rank passages for a query, show why, and keep the team.

pip install '.[local]'
python examples/rank.py                                   # embedded local model
python examples/rank.py --model openai:gpt-6-luna         # needs OPENAI_API_KEY
python examples/rank.py --model openai:qwen3 --base-url http://localhost:8000/v1
"""

from __future__ import annotations

import argparse

from mcranker import MCRanker
from personas import save

DOCS = [
    {
        "_id": "trial",
        "title": "Medical masks and respirators compared",
        "text": "In a trial with nurses, N95 respirators and medical masks were compared for how "
        "well they kept their wearers from catching respiratory viruses.",
    },
    {
        "_id": "laundry",
        "title": "How to wash a cloth mask",
        "text": "Wash cloth masks at 60 degrees with ordinary detergent, and let them dry well.",
    },
    {
        "_id": "advice",
        "title": "Advice for people at risk",
        "text": "Where the virus spreads, choose a mask that seals at the edges, such as an FFP2 "
        "or N95; a loose surgical mask lets air in at the sides.",
    },
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Rank three passages with a team of personas.")
    parser.add_argument("--model", help="openai:NAME, anthropic:NAME or local:NAME")
    parser.add_argument("--base-url", help="address of an OpenAI-compatible server")
    arguments = parser.parse_args()

    with MCRanker(team_size=3, model=arguments.model, base_url=arguments.base_url) as ranker:
        ranking = ranker.rank("Which masks protect best against COVID-19?", DOCS)

    for hit in ranking:
        print(hit.rank, hit.doc_id, hit.score, dict(hit.scores))
    print(ranking.usage, f"cost {ranking.cost} USD", f"missing {ranking.missing}")
    ranking.to_html("why.html")
    if ranking.team is not None:
        save(ranking.team, "team.yaml")  # edit it, then MCRanker(team="team.yaml")
    print("wrote why.html and team.yaml")


if __name__ == "__main__":
    main()
