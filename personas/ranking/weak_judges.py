"""Notes on judges that deserve little trust."""

from __future__ import annotations

from typing import Literal

WeakJudge = Literal["", "encoder"]
"""Why the model that judged is weak: an encoder compares meaning and does not reason."""


class WeakJudgeWarning(UserWarning):
    """An encoder judges because no model was named and no key was found. Given once per process."""


def judge_note(weak: WeakJudge, model: str = "") -> str:
    """A sentence about a weak judge, for whatever shows a ranking; empty for other judges."""
    if not weak:
        return ""
    by = f"{model}, " if model else ""
    return f"Judged by {by}an encoder: compares meaning, does not reason."
