"""The model card of a distilled cross-encoder, as the Hugging Face hub reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beir_eval.distil import agreement as agree
from beir_eval.report.texts import escaped_markdown


def model_card(record: Mapping[str, Any], name: str) -> str:
    """Return the card in Markdown: teacher, data, training, figures with intervals, limits.

    Args:
        record: content of ``distil.json``.
        name: of the model.
    """
    from jinja2 import Environment, PackageLoader

    made = Environment(  # noqa: S701 - no HTML: `e` escapes Markdown
        loader=PackageLoader("beir_eval", "distil"), trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(e=lambda text: escaped_markdown(str(text)), figure=_figure)
    against = record["judgements"].get("student_against", {})
    text = made.get_template("card.md").render(
        **record,
        agree=agree,
        name=name,
        first_stages=", ".join(sorted({each["first_stage"] for each in record["data"]})),
        against=against,
        verdict=agree.verdict(against[agree.FIRST]) if against else "",
    )
    return f"{text.rstrip()}\n"


def _figure(figure: Mapping[str, float] | None) -> str:
    return f"{figure['mean']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]" if figure else ""
