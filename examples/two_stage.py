"""Rank in two stages: DIRECT judges every passage, a team of personas the best of them.

pip install '.[local]'
python examples/two_stage.py                            # the embedded encoder, without a key
python examples/two_stage.py --model openai:gpt-6-luna  # needs OPENAI_API_KEY
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mcranker import DirectRanker, MCRanker

DOCS = Path(__file__).with_name("masks.jsonl")
BEST = 5  # of the first stage


def main() -> None:
    parser = argparse.ArgumentParser(description="Rank passages by DIRECT, the best by a team.")
    parser.add_argument("--model", default="local:minilm", help="openai:NAME, anthropic:NAME …")
    model = parser.parse_args().model
    docs = [json.loads(line) for line in DOCS.read_text("utf-8").splitlines()]
    with DirectRanker(model=model) as direct, MCRanker(model=model) as team:
        first = direct.rank("best masks against covid", docs)
        ranking = team.rank("best masks against covid", first[:BEST])
    for hit in ranking:
        print(hit.rank, hit.doc_id, hit.score, f"DIRECT gave {hit.first_stage_score}")


if __name__ == "__main__":
    main()
