"""One passage in the terminal view: its text, who gave it what, and who moved it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from personas.console import moved
from personas.plain import plain
from personas.ranking.record import Hit, OtherPlace, RankingRecord
from personas.report.terminal.screen import AT_MOST, NOTE, Screen, clipped, shade
from personas.words import counted, exact, weight

_MOST_TEXT = 4000  # characters
_MOST_PARAGRAPHS = 20
_LABEL = 14
_BAR = 10
_NAME = 30  # columns; what follows longer names is not aligned
_PARAGRAPHS = re.compile(r"\n\s*\n")


def show_passage(screen: Screen, inspection: RankingRecord, hit: Hit) -> None:
    """The passage whole, as far as that is sensible, and everything that placed it."""
    screen.line()
    screen.words(f"Rank {hit.rank} of {len(inspection.hits)}: {clipped(hit.doc_id, 200)}", "bold")
    if hit.title.strip():
        screen.words(clipped(hit.title, 500), "bold cyan")
    _show_text(screen, hit.text)
    screen.line()
    _show_facts(screen, inspection, hit)
    screen.line()
    if hit.dropped is not None:
        screen.words(
            f"The passage was dropped and not returned, because its relevance, "
            f"{exact(hit.dropped)}, is too low."
        )
    if hit.judged or hit.at_most is not None or hit.dropped is not None:
        _show_scores(screen, inspection, hit)
    elif inspection.unscored:
        screen.words("The ranker compared passages and gives an order without scores.")
    else:
        screen.words("The passage was not scored; it follows the others in first-stage order.")
    for name, why in hit.missing.items():
        reason = clipped(why, 1000) or "no reason is known"
        stood = f" ({hit.imputed[name]:.4g} is imputed)" if name in hit.imputed else ""
        screen.words(f"No score by {clipped(name, 80)}{stood}: {reason}", "yellow", hang=2)


def _show_text(screen: Screen, text: str) -> None:
    if not text.strip():
        screen.words("The passage has no text.", NOTE)
        return
    shown = text[:_MOST_TEXT]
    parts = [plain(part) for part in _PARAGRAPHS.split(shown) if part.strip()]
    if len(parts) > _MOST_PARAGRAPHS:
        parts = [plain(shown)]
    for part in parts:
        screen.words(part)
    if len(text) > _MOST_TEXT:
        screen.words(
            f"Cut here: {counted(len(text) - _MOST_TEXT, 'more character')} of {len(text):,} "
            "are not shown.",
            NOTE,
        )


def _show_facts(screen: Screen, inspection: RankingRecord, hit: Hit) -> None:
    facts: list[tuple[str, Text]] = []
    if hit.at_most is not None:
        facts.append(("final score", Text(f"{AT_MOST}{exact(hit.at_most)}: not all were asked")))
    elif hit.score is not None:
        final = hit.formula or exact(hit.score)
        facts.append(("final score", Text(final, style="bold")))
    if hit.relevance is not None:
        facts.append(("relevance", Text(f"{hit.relevance:.3f}")))
    first = Text(f"rank {hit.first_stage_rank}")
    if hit.first_stage_score is not None:
        first.append(f", score {exact(hit.first_stage_score)}")
    first.append("; moved ")
    facts.append(("first stage", first + moved(hit.moved)))
    if hit.disagreement is not None:
        what = "ranks" if inspection.by_rank else "scores"
        apart = f"{hit.disagreement:.3g}, {what} {hit.score_range or 0.0:.3g} apart"
        facts.append(("disagreement", Text(apart)))
    if inspection.grades is not None:
        facts.append(("judgement", _judgement(hit)))
    if inspection.other is not None:
        facts.append((clipped(inspection.other.name, 40), _other(inspection, hit)))
    for name, place in hit.members.items():
        facts.append((clipped(name, 40), Text(_said(place))))
    for label, said in facts:
        screen.words(Text(f"{label:<{_LABEL}} ") + said, hang=_LABEL + 1)


def _judgement(hit: Hit) -> Text:
    if hit.grade is None:
        return Text("not judged")
    if hit.grade > 0:
        return Text(f"relevant, grade {hit.grade}", style="bold green")
    return Text(f"not relevant, grade {hit.grade}")


def _other(inspection: RankingRecord, hit: Hit) -> Text:
    if hit.other is None:
        return Text("does not have this passage")
    said = _said(hit.other)
    top = inspection.other.top if inspection.other else None
    if hit.other.score is not None and top is not None:
        said += f" of {exact(top)}"
    return Text(said)


def _said(place: OtherPlace) -> str:
    return f"rank {place.rank}" + ("" if place.score is None else f", score {exact(place.score)}")


def _show_scores(screen: Screen, inspection: RankingRecord, hit: Hit) -> None:
    scale = "Ranks" if inspection.by_rank else f"Scores, 0 to {exact(inspection.top)}"
    screen.line(scale, "bold")
    longest = max((len(name) for name in inspection.judges if len(name) <= _NAME), default=0)
    for name in inspection.judges:
        _show_judge(screen, inspection, hit, name, longest)
    if not hit.rank_without:
        return
    for names, verb in ((hit.raised_most_by, "raised"), (hit.sunk_most_by, "sank")):
        if names:
            _show_effect(screen, hit, names, verb)
    if not (hit.raised_most_by or hit.sunk_most_by):
        screen.words("No persona moved it: without any one of them it would have the same rank.")
    if not inspection.leave_one_out_exact:
        screen.words(
            "This ranking is more than the scores combined. Ranks without a persona combine the "
            "remaining scores, and compare with all scores combined in the same way.",
            NOTE,
        )
    if len(inspection.judged) < len(inspection.hits):
        count = f"{len(inspection.judged):,}"
        verb = "compared" if inspection.by_rank else "scored"
        screen.words(f"They compare only the {count} passages that the whole team {verb}.", NOTE)


def _show_judge(
    screen: Screen, inspection: RankingRecord, hit: Hit, name: str, longest: int
) -> None:
    score, rank = hit.marks[name], hit.ranks.get(name)
    line = Text()
    if score is None:
        missing = name in hit.missing
        said = "missing" if missing else "not asked"
        line.append(f"{said:>9}", style="yellow" if missing else NOTE)
        line.append(" " * (_BAR + 1))
    else:
        share = score / inspection.top
        said = exact(score) if rank is None else str(rank)
        line.append(f"{said:>8} ", style=shade(screen, share))
        line.append(" ")
        line.append_text(screen.bar(share, _BAR))
    line.append("  ")
    line.append(clipped(name, 200).ljust(longest), style="cyan")
    without = hit.rank_without.get(name)
    if without is not None:
        effect = hit.effects.get(name, 0)
        line.append(f"  rank {without} without")
        line.append(f": raised it {effect}" if effect > 0 else "", style="green")
        line.append(f": sank it {-effect}" if effect < 0 else "", style="red")
    screen.words(line, hang=_BAR + 12)
    _show_criteria(screen, inspection, hit, name)


def _show_criteria(screen: Screen, inspection: RankingRecord, hit: Hit, name: str) -> None:
    member = inspection.member(name)
    rubric = member.rubric if member else None
    weights = {each.name: weight(each.weight) for each in rubric.criteria} if rubric else {}
    for criterion, score in hit.criteria.get(name, {}).items():
        share = f"{weights[criterion]} " if criterion in weights else ""
        bar = screen.bar(score / inspection.top, _BAR)
        line = Text(f"{exact(score):>8}  ") + bar
        line.append(f"    {share:<6}{clipped(criterion, 200)}", style=NOTE)
        screen.words(line, hang=_BAR + 20)


def _show_effect(screen: Screen, hit: Hit, names: Sequence[str], verb: str) -> None:
    who = " and ".join(clipped(name, 80) for name in names)
    without = "without" if len(names) == 1 else "without either"
    ranks = hit.rank_without[names[0]]
    line = Text(who, style="cyan")
    line.append(
        f" {verb} it most: {without}, it would stand at rank {ranks}, not {hit.rank_of_all}.",
        style="default",
    )
    screen.words(line)
