"""One passage in the terminal view: its text, its scores, and who moved it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text

from personas.console import moved
from personas.format import counted, exact, weight
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.report.formats import judgement, place
from personas.report.terminal.screen import NOTE, Screen, clipped, shade
from personas.sanitize import plain

_MOST_TEXT = 4000  # characters
_MOST_PARAGRAPHS = 20
_LABEL = 14
_BAR = 10
_NAME = 30  # columns; what follows longer names is not aligned
_PARAGRAPHS = re.compile(r"\n\s*\n")


def show_passage(screen: Screen, inspection: RankingRecord, hit: Hit) -> None:
    """The passage's text, cut if it is long, and everything that placed it."""
    screen.line()
    screen.words(f"Rank {hit.rank} of {len(inspection.hits)}: {clipped(hit.doc_id, 200)}", "bold")
    if hit.title.strip():
        screen.words(clipped(hit.title, 500), "bold cyan")
    _show_text(screen, hit.text)
    screen.line()
    for label, said in _facts(inspection, hit):
        screen.words(Text(f"{label:<{_LABEL}} ") + said, hang=_LABEL + 1)
    screen.line()
    if hit.dropped is not None:
        screen.words(
            f"The passage was dropped and not returned, because its relevance, "
            f"{exact(hit.dropped)}, is too low."
        )
    if hit.judged or hit.dropped is not None:
        _show_scores(screen, inspection, hit)
    elif inspection.unscored:
        screen.words("The ranker compared passages and gives an order without scores.")
    else:
        screen.words("The passage was not scored; it follows the others in first-stage order.")
    for name, why in hit.missing.items():
        reason = clipped(why, 1000) or "no reason is known"
        imputed = f" ({hit.imputed[name]:.4g} is imputed)" if name in hit.imputed else ""
        screen.words(f"No score by {clipped(name, 80)}{imputed}: {reason}", "yellow", hang=2)


def _show_text(screen: Screen, text: str) -> None:
    if not text.strip():
        screen.words("The passage has no text.", NOTE)
        return
    shown = text[:_MOST_TEXT]
    parts = [plain(part) for part in _PARAGRAPHS.split(shown) if part.strip()]
    for part in parts if len(parts) <= _MOST_PARAGRAPHS else [plain(shown)]:
        screen.words(part)
    if rest := len(text) - len(shown):
        more = counted(rest, "more character")
        screen.words(f"Cut here: {more} of {len(text):,} are not shown.", NOTE)


def _facts(inspection: RankingRecord, hit: Hit) -> Iterator[tuple[str, Text]]:
    if hit.score is not None:
        yield "final score", Text(hit.formula or exact(hit.score), style="bold")
    if hit.relevance is not None:
        yield "relevance", Text(f"{hit.relevance:.3f}")
    first = place(hit.first_stage_rank, hit.first_stage_score)
    yield "first stage", Text(f"{first}; moved ") + moved(hit.moved)
    if hit.disagreement is not None:
        what = "ranks" if inspection.by_rank else "scores"
        apart = f"{hit.disagreement:.3g}, {what} {hit.score_range or 0.0:.3g} apart"
        yield "disagreement", Text(apart)
    if inspection.grades is not None:
        style = "bold green" if (hit.grade or 0) > 0 else ""
        yield "judgement", Text(judgement(hit.grade, graded=True), style)
    if (other := inspection.other) is not None:
        at = "does not have this passage"
        if hit.other is not None:
            at = place(hit.other.rank, hit.other.score)
            if hit.other.score is not None and other.top is not None:
                at += f" of {exact(other.top)}"
        yield clipped(other.name, 40), Text(at)


def _show_scores(screen: Screen, inspection: RankingRecord, hit: Hit) -> None:
    scale = "Ranks" if inspection.by_rank else f"Scores, 0 to {exact(inspection.top)}"
    screen.line(scale, "bold")
    longest = max((len(name) for name in inspection.judges if len(name) <= _NAME), default=0)
    for name in inspection.judges:
        screen.words(_judge(screen, inspection, hit, name, longest), hang=_BAR + 12)
        member = inspection.member(name)
        rubric = member.rubric if member else None
        weights = {each.name: weight(each.weight) for each in rubric.criteria} if rubric else {}
        for criterion, score in hit.criteria.get(name, {}).items():
            share = f"{weights[criterion]} " if criterion in weights else ""
            line = Text(f"{exact(score):>8}  ") + screen.bar(score / inspection.top, _BAR)
            line.append(f"    {share:<6}{clipped(criterion, 200)}", style=NOTE)
            screen.words(line, hang=_BAR + 20)
    if not hit.rank_without:
        return
    for names, verb in ((hit.raised_most_by, "raised"), (hit.sunk_most_by, "sank")):
        if names:
            line = Text(" and ".join(clipped(name, 80) for name in names), style="cyan")
            without = "without" if len(names) == 1 else "without either"
            ranks = f"rank {hit.rank_without[names[0]]}, not {hit.rank_of_all}"
            line.append(f" {verb} it most: {without}, it would be at {ranks}.", style="default")
            screen.words(line)
    if not (hit.raised_most_by or hit.sunk_most_by):
        screen.words("No persona moved it: without any one of them it would be at the same rank.")
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


def _judge(screen: Screen, inspection: RankingRecord, hit: Hit, name: str, longest: int) -> Text:
    """The persona's score and its effect on the rank."""
    score, missing = hit.marks[name], name in hit.missing
    line = Text()
    if score is None:
        said = "missing" if missing else "not asked"
        line.append(f"{said:>9}{'':{_BAR + 1}}", style="yellow" if missing else NOTE)
    else:
        share = score / inspection.top
        line.append(f"{hit.ranks.get(name) or exact(score):>8} ", style=shade(screen, share))
        line.append(" ").append_text(screen.bar(share, _BAR))
    line.append(f"  {clipped(name, 200):<{longest}}", style="cyan")
    if (without := hit.rank_without.get(name)) is not None:
        effect = hit.effects.get(name, 0)
        line.append(f"  rank {without} without")
        line.append(f": raised it {effect}" if effect > 0 else "", style="green")
        line.append(f": sank it {-effect}" if effect < 0 else "", style="red")
    return line
