"""Notes on judges that deserve little trust."""

from __future__ import annotations

from typing import Literal

WeakJudge = Literal["", "small", "encoder"]
"""Why the model that judged is weak: too small to follow instructions, or an encoder, which
compares meaning and does not reason. Empty where it is not known to be."""

_KINDS = {
    "small": "a model too small to follow instructions well",
    "encoder": "an encoder: compares meaning, does not reason",
}


class WeakJudgeWarning(UserWarning):
    """A weak model judges because none was named and no key was found. Given once per process."""


def judge_note(weak: WeakJudge, model: str = "") -> str:
    """A sentence about a weak judge, for whatever shows a ranking; empty for other judges.

    >>> judge_note("encoder", "local:minilm")
    'Judged by local:minilm, an encoder: compares meaning, does not reason.'

    Args:
        weak: as rankings and `mcranker.Capabilities` have it.
        model: its name; may be empty.
    """
    if not weak:
        return ""
    return f"Judged by {f'{model}, ' if model else ''}{_KINDS[weak]}."
