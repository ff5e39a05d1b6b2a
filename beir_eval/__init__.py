"""Is the ranking any good? Data sets, a first stage, runs and measures.

```python
import beir_eval

dataset = beir_eval.load("mini")
run = beir_eval.retrieve(dataset, depth=100)
print(beir_eval.evaluate(run, dataset.qrels).means["nDCG@10"])
```

Names are loaded on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beir_eval.datasets import COLLECTIONS, Dataset, Document, load
    from beir_eval.errors import (
        BeirEvalError,
        DatasetError,
        ExtraMissing,
        MeasureError,
        RunError,
        SettingError,
    )
    from beir_eval.first_stage import BM25, retrieve
    from beir_eval.metrics import Evaluation, evaluate
    from beir_eval.runs import Run, read_trec, write_trec
    from beir_eval.tokens import tokenize

__all__ = [
    "BM25",
    "COLLECTIONS",
    "BeirEvalError",
    "Dataset",
    "DatasetError",
    "Document",
    "Evaluation",
    "ExtraMissing",
    "MeasureError",
    "Run",
    "RunError",
    "SettingError",
    "evaluate",
    "load",
    "read_trec",
    "retrieve",
    "tokenize",
    "write_trec",
]

_HOMES = {
    "datasets": ("COLLECTIONS", "Dataset", "Document", "load"),
    "errors": (
        "BeirEvalError",
        "DatasetError",
        "ExtraMissing",
        "MeasureError",
        "RunError",
        "SettingError",
    ),
    "first_stage": ("BM25", "retrieve"),
    "metrics": ("Evaluation", "evaluate"),
    "runs": ("Run", "read_trec", "write_trec"),
    "tokens": ("tokenize",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
