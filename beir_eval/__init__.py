"""Is the ranking any good? Data sets, first stages, experiments, measures and reports.

```python
import beir_eval

dataset = beir_eval.load("mini")
run = beir_eval.retrieve(dataset, depth=100)
print(beir_eval.evaluate(run, dataset.qrels).means["nDCG@10"])

plan = beir_eval.Plan(out="runs/table1", limit=20, options={"model": "openai:gpt-6-luna"})
beir_eval.run_suite(beir_eval.load_suite("table1"), plan)
report = beir_eval.build_report(beir_eval.find_runs(["runs/table1"]))
print(beir_eval.render_markdown(report))
```

Names are loaded on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beir_eval.data.catalogue import CATALOGUE
    from beir_eval.data.datasets import COLLECTIONS, Dataset, Document
    from beir_eval.data.first_stage import FirstStage, find, retrieve
    from beir_eval.data.load import load
    from beir_eval.errors import (
        BeirEvalError,
        DatasetError,
        ExtraMissing,
        MeasureError,
        RunFolderError,
        SettingError,
        SuiteError,
    )
    from beir_eval.experiment.cell import CellResult, ExperimentListener, Plan
    from beir_eval.experiment.run import Experiment, run_suite
    from beir_eval.experiment.run_folder import DataFolder, RunFolder, find_runs
    from beir_eval.experiment.suite import (
        DatasetSpec,
        RankerSpec,
        Suite,
        load_suite,
        shipped_suites,
    )
    from beir_eval.judging.agreement import Agreement, SystemOrder, agreement, system_order
    from beir_eval.judging.judge import (
        Grade,
        Judged,
        System,
        judge_pairs,
        judged_pairs,
        make_judge,
        pooled,
        read_systems,
    )
    from beir_eval.measures.metrics import Evaluation, evaluate
    from beir_eval.measures.ties import tie_bounds
    from beir_eval.measures.values import (
        Comparison,
        Interval,
        compare_runs,
        confidence_intervals,
    )
    from beir_eval.persona_report.build import PersonaReport, write_persona_report
    from beir_eval.report.build import build_report
    from beir_eval.report.forms import render_html, render_latex, render_markdown
    from mcranker.errors import RunError
    from mcranker.inputs.tokens import tokenize
    from mcranker.inputs.trec import Run, read_trec, write_trec
    from mcranker.retrieval.bm25 import BM25

_EXPORTS = {
    "beir_eval.data.catalogue": "CATALOGUE",
    "beir_eval.data.datasets": "COLLECTIONS Dataset Document",
    "beir_eval.data.load": "load",
    "beir_eval.errors": "BeirEvalError DatasetError ExtraMissing MeasureError RunFolderError "
    "SettingError SuiteError",
    "beir_eval.experiment.cell": "CellResult ExperimentListener Plan",
    "beir_eval.experiment.run": "Experiment run_suite",
    "beir_eval.experiment.run_folder": "DataFolder RunFolder find_runs",
    "beir_eval.experiment.suite": "DatasetSpec RankerSpec Suite load_suite shipped_suites",
    "beir_eval.judging.agreement": "Agreement SystemOrder agreement system_order",
    "beir_eval.judging.judge": (
        "Grade Judged System judge_pairs judged_pairs make_judge pooled read_systems"
    ),
    "beir_eval.measures.metrics": "Evaluation evaluate",
    "beir_eval.measures.values": "Comparison Interval compare_runs confidence_intervals",
    "beir_eval.measures.ties": "tie_bounds",
    "beir_eval.persona_report.build": "PersonaReport write_persona_report",
    "beir_eval.report.build": "build_report",
    "beir_eval.report.forms": "render_html render_latex render_markdown",
    "mcranker.retrieval.bm25": "BM25",
    "beir_eval.data.first_stage": "FirstStage find retrieve",
    "mcranker.inputs.tokens": "tokenize",
    "mcranker.errors": "RunError",
    "mcranker.inputs.trec": "Run read_trec write_trec",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "BM25",
    "CATALOGUE",
    "COLLECTIONS",
    "Agreement",
    "BeirEvalError",
    "CellResult",
    "Comparison",
    "DataFolder",
    "Dataset",
    "DatasetError",
    "DatasetSpec",
    "Document",
    "Evaluation",
    "Experiment",
    "ExperimentListener",
    "ExtraMissing",
    "FirstStage",
    "Grade",
    "Interval",
    "Judged",
    "MeasureError",
    "PersonaReport",
    "Plan",
    "RankerSpec",
    "Run",
    "RunError",
    "RunFolder",
    "RunFolderError",
    "SettingError",
    "Suite",
    "SuiteError",
    "System",
    "SystemOrder",
    "agreement",
    "build_report",
    "compare_runs",
    "confidence_intervals",
    "evaluate",
    "find",
    "find_runs",
    "judge_pairs",
    "judged_pairs",
    "load",
    "load_suite",
    "make_judge",
    "pooled",
    "read_systems",
    "read_trec",
    "render_html",
    "render_latex",
    "render_markdown",
    "retrieve",
    "run_suite",
    "shipped_suites",
    "system_order",
    "tie_bounds",
    "tokenize",
    "write_persona_report",
    "write_trec",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
