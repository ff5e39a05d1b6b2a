"""From run folders to a report: sections by suite, columns by data set or judge, rows by label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from beir_eval.answers.metrics import AnswerMetrics, grid_row, suite_cautions
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.labels import column_names, natural, row_labels
from beir_eval.experiment.pipeline_cell import read_answers_of, read_judgements
from beir_eval.experiment.run_folder import (
    ANSWERS,
    FIRST_STAGE,
    JUDGEMENTS,
    METRICS,
    PIPELINE,
    DataFolder,
    FigureNote,
    RunFolder,
    SuiteNote,
)
from beir_eval.files import read_form
from beir_eval.measures import paper
from beir_eval.measures.anova import Anova, anova
from beir_eval.measures.values import Values, compare_runs
from beir_eval.report.figures import scatters
from beir_eval.report.load import Loader
from beir_eval.report.model import Column, Figure, Report, Row, Section, TableCell
from beir_eval.report.tables import MISSING_SIGN, TIES_SIGN, mark, measure_text
from beir_eval.report.warnings import conditions, flaw_notices, measured_to, model_names, notes
from personas.report.warnings import Notice

MEASURE = "nDCG@10"
"""The measure of the paper's numbers, and of a report without any finished run."""
WORST = 10
"""Questions of the best pipeline that are shown with their answers."""
MOST_DOTS = 24
"""Pipelines above which there is no figure."""
_EQUAL = 1e-12  # values that differ by no more share a rank
_Slot = tuple[str, str]  # a column, by the content of its data, and a row, by its label


def build_report(
    runs: Sequence[RunFolder], *, measure: str | None = None, baseline: str | None = None
) -> Report:
    """Measure and compare the runs, in sections by suite; the order of `runs` makes no difference.

    Args:
        runs: of any suites, data sets and folders, rankers or pipelines; unfinished ones are
            listed, not counted.
        measure: whose values the tables show, as ir-measures writes it; computed from the TREC
            runs where the folders do not have it. None for the first measure of the first run.
            Of pipelines, the judge that heads the tables; None for the suite's first.
        baseline: label of the run that the others are compared with, or of the first stage
            (``"first stage"``, ``"BM25"``), in all sections that have it. The other sections, and
            None, take the suite's, else the first stage; of pipelines the best.

    Raises:
        RunFolderError: a folder is damaged, or its run and its data do not belong together.
        RunError: a TREC run is needed for `measure` and cannot be read.
        SettingError: no run has the label `baseline`.
        MeasureError: `measure` is unknown, or has values outside 0 to 1.
        SuiteError: a suite names a table or a figure that the paper has not.
        ExtraMissing: a test, or `measure`, needs a package that is not installed.
    """

    def place(run: RunFolder) -> tuple[object, ...]:
        suite = run.manifest.suite
        return (suite.place if suite else 0, natural(run.manifest.label), run.path.resolve().parts)

    groups: dict[tuple[bool, str, bool], list[RunFolder]] = {}
    for run in sorted(runs, key=place):
        suite, answers = run.manifest.suite, bool(run.manifest.answers)
        groups.setdefault((suite is None, suite.name if suite else "runs", answers), []).append(run)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], natural(item[0][1]), item[0][2]))
    rankers = [
        run
        for _, members in ordered
        for run in members
        if run.manifest.finished and not run.manifest.answers
    ]
    measures = rankers[0].metrics().measures if rankers else (MEASURE,)
    wanted = (measure or measures[0]).lower()
    loader = Loader(next((x for x in measures if x.lower() == wanted), measure or measures[0]))
    sections = tuple(
        _pipelines(name, members, measure, baseline)
        if answers
        else _rankers(name, members, loader, baseline)
        for (_, name, answers), members in ordered
    )
    judges = {
        judge for run in runs if run.manifest.answers for judge in run.manifest.answers.judges
    }
    if judges and not rankers and measure is not None and measure.lower() not in judges:
        raise SettingError(f"measure={measure!r} is no judge of these answers: {sorted(judges)}")
    rows = {row.label for each in sections for row in each.rows if row.not_run is None}
    # Of rankers the label in the folder is known as well, whatever their rows are called.
    known = rows | {run.manifest.label for run in rankers} | ({FIRST_STAGE} if rankers else set())
    if baseline is not None and baseline not in known:
        labels = ", ".join(map(repr, sorted(rows, key=natural)))
        raise SettingError(
            f"baseline={baseline!r} is no label of a finished run; there is "
            f"{labels or 'no finished run at all'}"
        )
    return Report(sections[0].measured if sections and not rankers else loader.measure, sections)


def _rankers(
    name: str, members: Sequence[RunFolder], loader: Loader, wanted: str | None
) -> Section:
    """The section of some runs of rankers."""
    suite = members[0].manifest.suite
    finished, data, unfinished = _by_slot(members)
    labels = [*dict.fromkeys(label for _, label in finished)]
    labels = [FIRST_STAGE, *labels] if labels else []
    stages = {folder.manifest.first_stage.name for folder in data.values()}
    # The first stage's own name, if all data sets have one.
    stage = next(iter(stages)) if len(stages) == 1 and not stages & {*labels} else FIRST_STAGE
    shown = {label: stage if label == FIRST_STAGE else label for label in labels}
    rows_of = {run.manifest.label: row for (_, row), run in finished.items()}
    rows_of |= {each: label for label, each in shown.items()} | {label: label for label in labels}
    asked = (wanted, suite.baseline if suite else None)
    baseline = next((rows_of[each] for each in asked if each in rows_of), FIRST_STAGE)
    with_paper = loader.measure.lower() == MEASURE.lower()
    cells = {(each, FIRST_STAGE): loader.of_first_stage(data[each]) for each in data}
    cells |= {slot: loader.of_run(run, data[slot[0]]) for slot, run in finished.items()}
    cells = _compared(cells, baseline)
    if with_paper:
        for slot, cell in cells.items():
            cells[slot] = replace(cell, paper=_paper_of(cell, data[slot[0]], suite))
    columns = _columns(data)
    names = dict(zip(data, (column.name for column in columns), strict=True))
    rows = []
    for label in labels:
        manifests = {names[x]: finished[x, label].manifest for x in data if (x, label) in finished}
        rows.append(
            Row(
                shown[label],
                tuple(cells.get((each, label)) for each in data),
                is_baseline=label == baseline,
                weak_judge=max((each.weak_judge for each in manifests.values()), default=""),
                models=model_names(manifests),
                foreign=any(manifest.foreign for manifest in manifests.values()),
            )
        )
    there = {run.manifest.label for run in members}
    never_run = [each for each in (suite.rankers if suite else ()) if each not in there]
    if rows and suite:
        rows += _not_run(suite, never_run, list(data.values()), with_paper=with_paper)
    folders: dict[str, DataFolder | RunFolder] = {f"data of {names[x]}": data[x] for x in data}
    folders |= {f"{label} on {names[x]}": run for (x, label), run in finished.items()}
    section = Section(
        name=name,
        title=suite.title if suite else "Runs",
        columns=columns,
        rows=tuple(rows),
        baseline=shown.get(baseline, baseline),
        measured=measured_to(loader.measure, [each.manifest.depth for each in data.values()]),
        figure=_figure(suite, columns, rows),
        unfinished=unfinished,
        changed=_changed(folders),
    )
    said = list(notes(section))
    if never_run:
        said.append(f"Rankers of the suite that were not run: {', '.join(never_run)}.")
    source = paper.paper_source() if section.has_paper else ""
    return replace(section, notes=tuple(said), paper_source=source)


def _by_slot(
    members: Sequence[RunFolder],
) -> tuple[dict[_Slot, RunFolder], dict[str, DataFolder], tuple[tuple[str, str], ...]]:
    """The finished runs and their data in the order of the columns, and the others."""
    finished: dict[_Slot, RunFolder] = {}
    folders: dict[str, DataFolder] = {}
    unfinished = []
    for label, run in zip(row_labels(members), members, strict=True):
        folder = run.data()
        if run.manifest.finished:
            finished[folder.manifest.content, label] = run
            folders.setdefault(folder.manifest.content, folder)
        else:
            unfinished.append((folder.manifest.dataset, label))

    def place(content: str) -> tuple[object, ...]:
        data, known = folders[content].manifest, paper.DATASETS
        of_paper = known.index(data.paper) if data.paper in known else len(known)
        return (of_paper, natural(data.dataset), data.queries, data.depth, data.split, content)

    return finished, {x: folders[x] for x in sorted(folders, key=place)}, tuple(unfinished)


def _changed(folders: Mapping[str, DataFolder | RunFolder]) -> tuple[str, ...]:
    found = ((what, folder.changed()) for what, folder in folders.items())
    return tuple(f"{what} ({', '.join(files)})" for what, files in found if files)


def _columns(data: Mapping[str, DataFolder]) -> tuple[Column, ...]:
    manifests = [folder.manifest for folder in data.values()]
    counts = [paper.paper_queries(each.paper) if each.paper else None for each in manifests]
    return tuple(
        Column(name, conditions(of, count), of, count, of.judge)
        for name, of, count in zip(column_names(manifests), manifests, counts, strict=True)
    )


def _compared(cells: Mapping[_Slot, TableCell], baseline: str) -> dict[_Slot, TableCell]:
    """The cells with their ranks in their columns, and compared with the baseline's."""
    values: dict[str, dict[str, Values]] = {}
    for (column, label), cell in cells.items():
        values.setdefault(column, {})[label] = cell.values
    alike = {
        column: {
            label: of
            for label, of in rows.items()
            if baseline not in rows or of.of.keys() & rows[baseline].of.keys()
        }
        for column, rows in values.items()
    }
    compared = compare_runs(alike, baseline)
    ranks = {column: _ranked(rows) for column, rows in values.items()}
    found = {}
    for (column, label), cell in cells.items():
        than, base = compared[column].get(label), values[column].get(baseline)
        signs = mark(than.p_adjusted) if than and than.decision else ""
        if than and base:
            gain = (cell.values.mean or 0.0) - (base.mean or 0.0)
            by_ties = bool(cell.values.lots or base.lots) and than.difference < gain / 2
            signs += TIES_SIGN * (gain > _EQUAL and by_ties)
        signs += MISSING_SIGN * cell.values.is_open
        rank = ranks[column][label]
        found[column, label] = replace(cell, rank=rank, comparison=than, signs=signs)
    return found


def _ranked(column: Mapping[str, Values]) -> dict[str, int]:
    """Return 1 for the best value, 2 for the second, equal ones alike; 0 for all others.

    One whose place depends on what it lacks has none.
    """
    known = {label: each.by_lot for label, each in column.items() if each.by_lot is not None}
    sure = {label: mean for label, mean in known.items() if not column[label].is_open}
    for label in known.keys() - sure.keys():
        ends = [end for end in column[label].ends if end is not None]
        places = {_places({**sure, label: end})[label] for end in ends}
        if len(places) == 1 and 0 not in places:
            sure[label] = known[label]
    return {**dict.fromkeys(column, 0), **_places(sure)}


def _places(means: Mapping[str, float]) -> dict[str, int]:
    ranks = dict.fromkeys(means, 0)
    rank, last = 0, math.inf
    for label in sorted(means, key=lambda each: -means[each]) if len(means) > 1 else ():
        if last - means[label] > _EQUAL:
            rank, last = rank + 1, means[label]
        if rank > 2:
            break
        ranks[label] = rank
    return ranks


def _paper_of(cell: TableCell, data: DataFolder, suite: SuiteNote | None) -> float | None:
    if cell.manifest is None:
        # Another first stage than the paper's is not to be mistaken for it.
        is_papers = paper.FIRST_STAGE_ROW in data.manifest.first_stage.name
        return _published(suite, paper.FIRST_STAGE_ROW if is_papers else None, data)
    own = cell.manifest.suite
    return _published(own, own.paper_row if own else None, data)


def _published(suite: SuiteNote | None, row: str | None, data: DataFolder) -> float | None:
    """The paper's nDCG@10 of a row on a data set, 0 to 1; None if it has none."""
    column = data.manifest.paper
    if suite is None or suite.paper_table is None or row is None or column is None:
        return None
    return paper.paper_value(suite.paper_table, row, column)


def _not_run(
    suite: SuiteNote, never_run: Sequence[str], data: Sequence[DataFolder], *, with_paper: bool
) -> list[Row]:
    """Rows of which nothing was run, with the paper's numbers."""
    rows = []
    listed = [(label, suite.paper_rows.get(label)) for label in never_run]
    for label, row in (*listed, *((row, row) for row in suite.not_run)):
        numbers = tuple(_published(suite, row, each) for each in data)
        if label in never_run or (with_paper and set(numbers) != {None}):
            nothing = (None,) * len(numbers)
            rows.append(Row(label, nothing, not_run=numbers if with_paper else nothing))
    return rows


def _figure(
    suite: SuiteNote | None, columns: Sequence[Column], rows: Sequence[Row]
) -> Figure | None:
    """Return the suite's figure; None if it has none, or nothing of it was run."""
    if suite is None or suite.figure is None:
        return None
    note = suite.figure
    lines: dict[str, list[tuple[float | str, Values]]] = {}
    for place, column in enumerate(columns):
        for row in rows:
            cell = row.cells[place]
            if cell is None or cell.manifest is None or cell.manifest.suite is None:
                continue
            x, series = cell.manifest.suite.x, cell.manifest.suite.series
            at: float | str = row.label if x is None else str(x)
            if note.kind == "line":
                if not isinstance(x, int | float):
                    continue
                at = float(x)
            name = f"{series}, {column.name}" if series and len(columns) > 1 else series
            lines.setdefault(name or column.name, []).append((at, cell.values))
    if not lines:
        return None
    if note.kind == "line":
        for points in lines.values():
            points.sort(key=lambda point: float(point[0]))
    said = paper.paper_words(note.paper) if note.paper else ""
    return Figure(note, tuple((name, tuple(points)) for name, points in lines.items()), said)


def _pipelines(
    name: str, members: Sequence[RunFolder], measure: str | None, wanted: str | None
) -> Section:
    """The section of a suite of pipelines."""
    suite, asked = members[0].manifest.suite, members[0].manifest.answers
    if suite is None or asked is None:
        raise RunFolderError(f"{members[0].path}: its manifest names no suite")
    named = dict(zip(row_labels(members), members, strict=True))
    runs = {label: run for label, run in named.items() if (run.path / METRICS).exists()}
    found = {label: read_form(run.path / METRICS, AnswerMetrics) for label, run in runs.items()}
    given = measure and measure.lower()
    head = given if given in asked.judges else asked.judges[0]
    values: dict[str, dict[str, Values]] = {}
    without: list[tuple[str, Values]] = []  # their cells are empty, so that their flaws are said
    for label, of in found.items():
        values[label] = {}
        for judge, one in of.judges.items():
            own = one.mean is not None and asked.judge in of.writers
            shown = one.as_values(judge, asked.judge, own=own)
            if one.mean is None:
                without.append((f"{label}, {judge}", shown))
            else:
                values[label][judge] = shown
    means = {label: of[head].mean or 0.0 for label, of in values.items() if head in of}
    best = max(means, key=lambda label: means[label], default="")
    baseline = wanted if wanted in means else best
    cells = {}
    for label, by_judge in values.items():
        note = runs[label].manifest.suite
        for judge, each in by_judge.items():
            theirs = note.theirs.get(judge) if note else None
            cells[judge, label] = TableCell(each, manifest=runs[label].manifest, paper=theirs)
    # One family: the comparisons by the judge that heads the tables.
    cells |= _compared({slot: cell for slot, cell in cells.items() if slot[0] == head}, baseline)
    judges = [head, *(judge for judge in asked.judges if judge != head)]
    rows = tuple(
        Row(
            label,
            tuple(cells.get((judge, label)) for judge in judges),
            is_baseline=label == baseline,
            models=model_names({"": runs[label].manifest}),
            answers=of,
        )
        for label, of in found.items()
    )
    said = _unlike([*runs.values()])
    if wanted in found and wanted not in means:
        said.append(Notice("warn", f"{wanted} has no value of {head}; the best is the baseline."))
    said += [
        Notice(each.kind, f"{label}: {each.sentence}")
        for label, of in without
        for each in flaw_notices([(label, of)])
    ]
    said += suite_cautions(found)
    points = [
        grid_row(note.point, of)
        for label, of in found.items()
        if (note := runs[label].manifest.suite) and note.point
    ]
    analysis: Anova | None = None
    if suite.formula and points:
        try:
            analysis = anova(points, suite.formula)
        except SettingError as refused:  # a part of the grid, or no variance
            said.append(Notice("warn", f"No analysis of variance: {refused}."))
    models = {judge: of.values.judge for (judge, _), of in cells.items()}
    speeds = {
        label: speed
        for label, of in found.items()
        if (speed := of.characters_per_second) is not None
    }
    drawn = scatters(suite.figure or FigureNote(), values, speeds) if len(rows) <= MOST_DOTS else ()
    ours = [f"Levels of {', '.join(suite.ours)} are ours; the paper names none."]
    return Section(
        name=name,
        title=suite.title,
        kind=PIPELINE,
        columns=tuple(
            Column(judge.replace("_", " "), "", judge=models.get(judge, "")) for judge in judges
        ),
        rows=rows,
        baseline=baseline,
        measured=head.replace("_", " "),
        unfinished=tuple(("", label) for label in named if label not in found),
        changed=_changed(runs),
        warnings=tuple(said),
        notes=(*filter(None, [suite.description]), *(ours if suite.ours else ())),
        analysis=analysis,
        worst=_worst(runs[best], found[best], head) if best else (),
        worst_of=best,
        drawings=tuple(drawn),
    )


def _unlike(runs: Sequence[RunFolder]) -> list[Notice]:
    """Differences between pipelines of one suite that must have none."""
    answers = [run.manifest.answers for run in runs]
    apart: dict[str, list[object]] = {
        "judges": [each and each.judge for each in answers],
        "questions": [run.manifest.data for run in runs],
        "numbers of runs": [each and each.runs for each in answers],
    }
    said = "Pipelines have different {}: run the suite again with one for all."
    return [Notice("bad", said.format(x)) for x, values in apart.items() if len({*values}) > 1]


def _worst(run: RunFolder, of: AnswerMetrics, judge: str) -> tuple[tuple[str, ...], ...]:
    path = run.path / "run-1"
    answers, judged = read_answers_of(path / ANSWERS), read_judgements(path / JUDGEMENTS)
    values = of.judges[judge].questions
    golden = run.manifest.answers.golden if run.manifest.answers else {}
    found = []
    for name in sorted(values, key=lambda each: (values[each], each))[:WORST]:
        if name in answers:
            note = judged.get(name, {}).get(judge)
            right = "; ".join(golden.get(name, ()))
            texts = (answers[name].text, right, note.notes if note else "")
            found.append((answers[name].question, measure_text(values[name]), *texts))
    return tuple(found)
