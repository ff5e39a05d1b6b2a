"""Options of a suite's rankers: checked as on the command line, with files beside the suite's."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from beir_eval.errors import SuiteError
from mcranker.config import MOST_IN_A_CALL, RankerConfig
from mcranker.errors import ConfigError, MCRankerError, UnsupportedCapability
from mcranker.llm.chat import Capabilities
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import Key, check_names, keys_of, located
from personas import PersonasError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcranker.rankers import Ranker

_STAND_IN = "a collection of documents"


@dataclass(frozen=True, slots=True)
class Options:
    """Makes each ranker's options of the suite's and its own."""

    base: Path | None  # folder that files are looked for in; None for suites that name no files
    settings: Mapping[str, Any]  # of the suite, for all rankers
    models: Mapping[str, str]  # names -> models that options may name

    def of(self, ranker: str, own: Mapping[str, Any], place: str) -> dict[str, Any]:
        """The options of a ranker, ready for its class."""
        what, given = f"the ranker {ranker!r}", {**self.settings, **own}
        try:
            if "ledger" in given:
                raise ConfigError("one ledger serves all runs; give it as --ledger")
            known = keys_of(ranker)
            check_names(given, known, what)
            options = {name: self._value(known[name], given[name], place) for name in given}
        except ConfigError as failure:
            raise SuiteError(f"{place}: {failure}") from failure
        _try_out(RANKERS.get(ranker), options, place)
        return options

    def _value(self, key: Key, value: Any, place: str) -> Any:
        if isinstance(value, str) and value in self.models and key.name in MODEL_OPTIONS:
            return self.models[value]
        if self.base is not None:
            value = located(key.name, value, self.base)
        found = key.read(value)
        if key.name in MODEL_OPTIONS and found is not None:
            checked_model(found, f"{place}: {key.name}", self.models)
        return found if isinstance(value, str) else value


def checked_model(model: str, where: str, names: Mapping[str, str] | None = None) -> str:
    """The model's name, if it has the form of one."""
    from mcranker.llm.provider import PROVIDERS

    kind, _, name = model.partition(":")
    if kind in PROVIDERS and name.strip():
        return model
    forms = ", ".join(f"{prefix}:NAME" for prefix in PROVIDERS.names)
    close = difflib.get_close_matches(model, names or (), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SuiteError(f"{where}={model!r} is no model: write {forms} or a name of [models]{hint}")


def _without_models(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without models, and words about the data set where they are needed."""
    kept = {
        name: value
        for name, value in options.items()
        if name not in ("base_url", "model", "batch", "max_passage_tokens")
        and not name.endswith("_model")
    }
    if kept.get("criteria") == "dataset":
        kept.setdefault("dataset", _STAND_IN)
    return kept


def _try_out(kind: type[Ranker], options: Mapping[str, Any], place: str) -> None:
    """Make the ranker with a model that is never asked, so that it refuses what it would later."""
    from mcranker.llm.scripted import ScriptedChat

    able = Capabilities(
        json_schema=True,
        label_logprobs=True,
        continuation_logprobs=True,
        prefill=True,
        max_questions=MOST_IN_A_CALL,
    )
    without = _without_models(options)
    # A batch needs a provider, and tokens a tokenizer, which the stand-in has not.
    tried = {**without, "batch": False, "max_passage_tokens": None}
    try:
        given = {**without, **options}
        RankerConfig(**{name: given[name] for name in given if name in RankerConfig.model_fields})
        make = cast("Callable[..., Ranker]", kind)
        make(model=ScriptedChat(lambda _: "", capabilities=able), ledger=None, **tried)
    except UnsupportedCapability:
        return  # what the stand-in lacks, the model that will be asked may have
    except (MCRankerError, PersonasError) as failure:
        raise SuiteError(f"{place}: {failure}") from failure
