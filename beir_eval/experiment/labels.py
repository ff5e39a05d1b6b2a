"""Distinct names of rows and columns, whatever folders a report is made of."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from beir_eval.experiment.run_folder import DataManifest, RunFolder, RunManifest
from personas.ensembles import highest_score

_PROVIDERS = ("openai.com", "anthropic.com")
_NAMES = {
    "direct": "DIRECT(0,{top:g})",
    "mcranker": "MCRanker",
    "qg": "QG",
    "rankgpt": "RankGPT",
    "rebel": "REBEL",
    "rerank": "Reranker",
    "rg_s": "RG-S(0,{top:g})",
    "rg_yn": "RG-YN",
    "setwise": "Setwise",
}
"""Names, as in suites and in the paper, of rankers that were run without a label."""


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts ``table2`` before ``table10``."""
    return tuple(
        (0, int(part), part) if part.isdecimal() else (1, 0, part)
        for part in re.split(r"([0-9]+)", text)
        if part
    )


def row_labels(runs: Sequence[RunFolder]) -> list[str]:
    """Return the runs' labels; those of several runs on the same data are made different."""
    labels = [run.manifest.label for run in runs]
    for place, manifest in enumerate(run.manifest for run in runs):
        top, name = highest_score(manifest.config), _NAMES.get(manifest.ranker, manifest.label)
        alone = manifest.suite is None and manifest.label == manifest.ranker
        if alone and (top or "{" not in name):
            labels[place] = name.format(top=top)
    tags = [""] * len(runs)
    for label in set(labels):
        places = [place for place, each in enumerate(labels) if each == label]
        same = [runs[place] for place in places]
        if max(Counter(run.manifest.data for run in same).values()) == 1:
            continue
        homes = _homes(same)
        common = Path(os.path.commonpath(homes))
        common = common.parent if common in homes else common
        for place, home in zip(places, homes, strict=True):
            tags[place] = f" ({home.relative_to(common).as_posix()})"
    return [f"{label}{tag}" for label, tag in zip(labels, tags, strict=True)]


def column_names(data: Sequence[DataManifest]) -> list[str]:
    """Return the data sets' names; those with one name, but other content, get distinct ones."""
    names = [each.dataset for each in data]
    shared = Counter(names)
    for said in range(1, 5):
        if len(set(names)) == len(names):
            break
        # What data of one name may differ in, the plainest first.
        for place, each in enumerate(data):
            more = [f"{each.queries} queries, top {each.depth}", f"split {each.split}"]
            more += [f"by {each.first_stage.name}", f"content {each.content[:8]}"]
            if shared[each.dataset] > 1:
                names[place] = f"{each.dataset} ({', '.join(more[:said])})"
    return names


def _homes(runs: Sequence[RunFolder]) -> list[Path]:
    """The fewest parts of the runs' paths that give each its own place in the table."""
    paths = [run.path.resolve() for run in runs]
    outs = [path.parent.parent for path in paths]
    for homes in (outs, [out / path.name for out, path in zip(outs, paths, strict=True)]):
        taken = {(run.manifest.data, home) for run, home in zip(runs, homes, strict=True)}
        if len(taken) == len(runs):
            return homes
    return paths


def models_of(manifest: RunManifest) -> str:
    """The models' names, role by role where they differ, and the server if it is another one."""
    models = manifest.models
    names = "".join(set(models.values()))
    if len(set(models.values())) > 1:
        names = ", ".join(f"{role} {name}" for role, name in models.items())
    server = other_server(manifest)
    return f"{names} at {server}" if server else names


def other_server(manifest: RunManifest) -> str:
    """Host of the server that answered, if it is not the provider's own; else empty."""
    address = manifest.server or str(manifest.options.get("base_url") or "")
    # What masks a secret is in no valid address, so none is parsed as one.
    authority = re.split(r"[/?#]", address.partition("//")[2] or address)[0].rpartition("@")[2]
    host = re.sub(r":[0-9]*$", "", authority).lower()
    own = any(host == each or host.endswith(f".{each}") for each in _PROVIDERS)
    return "" if own else host
