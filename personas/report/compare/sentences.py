"""A comparison of rankings in sentences: the same in terminals and on pages."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from personas.ensembles import Rule
from personas.format import counted, exact, fixed, signed, weight
from personas.ranking.comparison import (
    ComparedPassage,
    CriterionChange,
    PersonaChange,
    RankingComparison,
)

_FINE = 3.0
_MOST_IDLE = 5
_LABEL = 360  # characters of a text looked at for a label


class Name(str):
    """Foreign text within a sentence of ours."""

    __slots__ = ()


Sentence: TypeAlias = tuple[str, ...]
"""Parts of a sentence; a `Name` is foreign text."""


def summary(comparison: RankingComparison) -> list[Sentence]:
    """Sentences on how much changed, by whom, and if it is better, without the notes."""
    found: list[Sentence] = []
    moved, total = len(comparison.movers), len(comparison.passages)
    depth = min(10, len(comparison.before.hits), len(comparison.after.hits))
    if not moved:
        found.append((f"No passage moved; {counted(total, 'passage')} compared.",))
    else:
        shared = comparison.shared_top(depth)
        found.append(
            (
                f"{moved:,} of {counted(total, 'passage')} moved; "
                f"{'all' if shared == depth else f'{shared:,}'} of the first {depth:,} are still "
                "there.",
            )
        )
    who = _who_moved(comparison) or _who_moved_nothing(comparison)
    if who:
        found.append(who)
    found += [
        (Name(name), " was changed, and gave every passage the score that it had before.")
        for name in comparison.idle[:_MOST_IDLE]
    ]
    if comparison.team is not None and not comparison.team:
        found.append(
            (
                "The teams are the same, so what moved comes from "
                f"{'the settings below' if comparison.settings else 'the model’s own variation'}.",  # noqa: RUF001
            )
            if moved
            else ("The teams are the same.",)
        )
    ndcg = ndcg_sentence(comparison)
    worse = (comparison.ndcg_after or 0) < (comparison.ndcg_before or 0)
    if ndcg:
        found.insert(0 if worse else len(found), (ndcg,))
    return found


def ndcg_sentence(comparison: RankingComparison) -> str:
    """NDCG before and after; empty where it is not known."""
    before, after = comparison.ndcg_before, comparison.ndcg_after
    measure = comparison.measure
    if before is None or after is None:
        if comparison.after.grades is None:
            return ""
        return "No passage is judged relevant to this query, so there is no nDCG."
    difference = signed(after - before)
    if difference == "0.000":
        return f"{measure} stays at {after:.3f}; this is one query."
    verb = "rises" if after > before else "falls"
    return f"{measure} {verb} from {before:.3f} to {after:.3f} ({difference}); this is one query."


def reason(passage: ComparedPassage) -> Sentence:
    """Why a passage moved, the persona that moved it most first; empty where that is not known."""
    moved, causes = passage.moved, passage.causes
    if moved is None:
        return ("Only before.",) if passage.after is None else ("Only after.",)
    assert passage.after is not None
    if not causes and not passage.combining_effect:
        return ()
    sign = 1 if moved >= 0 else -1
    first = causes[0] if causes and moved and sign * causes[0].effect > 0 else None
    if sign * passage.combining_effect > (sign * first.effect if first else 0):
        rank = passage.after.rank + passage.combining_effect
        return (
            "Scores are combined in another way; combined as before, it would be at rank "
            f"{rank:,}.",
        )
    if first is None:
        greatest = max(causes, key=lambda each: abs(each.change or 0.0), default=None)
        lead = "No change of one persona moves it by itself. " if moved else ""
        if greatest is None or not greatest.change:
            return (lead.strip(),) if lead else ()
        return (lead, *_what(greatest), *_by(greatest), ".")
    rank = passage.after.rank + first.effect
    gave = "scores" if first.rank_before is None else "ranks"
    past = "" if first.joined or first.left else " of before"
    with_them = "without" if first.joined else "with"
    return (
        *_what(first),
        *_by(first),
        f"; {with_them} its {gave}{past} the passage would be at rank {rank:,}.",
    )


def sides(comparison: RankingComparison) -> list[tuple[str, str]]:
    """Label -> the ranker, models and personas of both rankings; one entry if they are the same."""
    said = []
    for side in (comparison.before, comparison.after):
        models = dict.fromkeys(side.models.values())
        judge = side.models.get("scoring", "")
        by = f"judged by {judge}" if judge else ""
        others = [name for name in models if name != judge]
        also = f"also asked: {', '.join(others)}" if others else ""
        team = counted(len(side.judges), "persona") if side.judges else ""
        said.append(", ".join(filter(None, [side.ranker, team, by, also])))
    if said[0] == said[1]:
        return [("Both", said[0])]
    return [("Before", said[0]), ("After", said[1])]


def label_of(each: ComparedPassage) -> str:
    """Title, or beginning of the text, or id."""
    return each.title.strip() or " ".join(each.text[:_LABEL].split()) or each.doc_id


def change_text(before: float | None, after: float | None) -> str:
    """``8.1 → 7.45``, or ``8.1`` if that stayed; a dash where there is none."""
    one, two = score_pair(before, after)
    return one if one == two else f"{one} → {two}"


def score_pair(before: float | None, after: float | None) -> tuple[str, str]:
    """Two scores as text, with as many digits as tell them apart; a dash for None."""
    places = 3 if max(abs(before or 0), abs(after or 0)) <= _FINE else 2
    if before is not None and after is not None and before != after:
        while places < 6 and round(before, places) == round(after, places):
            places += 1
    return _score(before, places), _score(after, places)


def given_pair(cause: PersonaChange) -> tuple[str, str]:
    """Return the persona's rank or else score of the passage, before and after."""
    given = zip(
        score_pair(cause.before, cause.after), (cause.rank_before, cause.rank_after), strict=True
    )
    one, two = (score if rank is None else f"rank {rank:,}" for score, rank in given)
    return one, two


def criterion_text(change: CriterionChange) -> str:
    """``9 → 6, weight 30% → 55%``; what stayed is said once."""
    if change.weight_before is None:
        return f"new: {_score(change.after, 2)}, weight {weight(change.weight_after or 0)}"
    if change.weight_after is None:
        return f"gone: was {_score(change.before, 2)}, weight {weight(change.weight_before)}"
    one, two = score_pair(change.before, change.after)
    score = one if one == two else f"{one} → {two}"
    old, new = weight(change.weight_before), weight(change.weight_after)
    return f"{score}, weight {old if old == new else f'{old} → {new}'}"


def _what(cause: PersonaChange) -> Sentence:
    name = Name(cause.persona)
    before, after = given_pair(cause)
    ranks = [rank for rank in (cause.rank_before, cause.rank_after) if rank is not None]
    if cause.joined:
        gave = f" and gave it {after}" if cause.after is not None else ""
        return (name, f" is new on the team{gave}")
    if cause.left:
        gave = f", who gave it {before}," if cause.before is not None else ""
        return (name, f"{gave} is not on the team any more")
    if cause.before is None and cause.after is None:
        return (name, " gave it no score, and other passages other scores than before")
    if cause.before is None:
        return (name, f" gave it {after}; before, its score was ", *_absent(cause.absent_before))
    if cause.after is None:
        return (name, f" gave it {before} before; now its score is ", *_absent(cause.absent_after))
    if before == after:
        others = "other ranks" if ranks else "other scores"
        return (name, f" gave it {after} as before, and other passages {others}")
    if ranks:
        return (name, f" gave it {before} before and {after} now")
    verb = "rose" if cause.after > cause.before else "fell"
    return (name, f" {verb} from {before} to {after}")


def _absent(why: str) -> Sentence:
    kind, colon, words = why.partition(": ")
    return (kind, colon, Name(words))


def _by(cause: PersonaChange) -> Sentence:
    if not cause.criteria or cause.change is None or not cause.change:
        return ()
    first = cause.criteria[0]
    return (", most by ", Name(first.name), f" ({criterion_text(first)})")


def _who_moved(comparison: RankingComparison) -> Sentence:
    firsts = Counter(
        each.causes[0].persona
        for each in comparison.movers
        if each.causes
        and each.moved
        and (each.causes[0].effect > 0) == (each.moved > 0)
        and each.causes[0].effect
    )
    if not firsts:
        return ()
    name, count = firsts.most_common(1)[0]
    return (
        "Most moves come from the scores of ",
        Name(name),
        f": {count:,} of {sum(firsts.values()):,}.",
    )


def _who_moved_nothing(comparison: RankingComparison) -> Sentence:
    """The greatest change of a score, where no passage moved for all that."""
    changes = [
        (abs(cause.change), cause, each)
        for each in comparison.passages
        for cause in each.causes
        if cause.change
    ]
    if comparison.movers or not changes:
        return ()
    _, cause, passage = max(changes, key=lambda each: each[0])
    before, after = given_pair(cause)
    share = Rule.of(comparison.after.config).first_stage_weight
    first_stage = (
        f"; the first stage counts {exact(100 * share)}% in the final score" if share else ""
    )
    return (
        "Scores changed, and not by enough: the most is ",
        Name(cause.persona),
        "’s of ",  # noqa: RUF001
        Name(passage.doc_id),
        f", from {before} to {after}{first_stage}.",
    )


def _score(score: float | None, places: int) -> str:
    if score is None:
        return "–"  # noqa: RUF001
    text = fixed(score, places)
    return text.rstrip("0").rstrip(".") if "." in text else text
