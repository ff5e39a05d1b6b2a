"""Options of a suite's rankers: which there are, what they may be, and where their files lie."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, cast, get_args

from beir_eval.errors import SuiteError
from mcranker.paths import is_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcranker.rankers import Ranker

_KEPT_OUT = {
    "api_key": "keys are not kept in files; set OPENAI_API_KEY or ANTHROPIC_API_KEY",
    "ledger": "one ledger serves all runs; name it by --ledger",
    "config": "write its fields one by one, each as a key of its own",
}
_TEAM_FILES = {".yaml", ".yml", ".json"}
_NONE = "none"
_STAND_IN = "a collection of documents"


@dataclass(frozen=True, slots=True)
class Options:
    """Makes each ranker's options of the suite's and its own.

    Attributes:
        base: folder that files are looked for in; None for suites that name no files.
        settings: of the suite, for all rankers.
        models: names -> models that options may name.
    """

    base: Path | None
    settings: Mapping[str, Any]
    models: Mapping[str, str]

    def of(self, ranker: str, own: Mapping[str, Any], place: str) -> dict[str, Any]:
        """The options of a ranker, ready for its class.

        Args:
            ranker: its name in `mcranker.rankers.RANKERS`.
            own: what appears beside its label; goes before the settings.
            place: file and label, for messages.

        Raises:
            SuiteError: there is no such ranker; it does not take an option, or refuses a value.
        """
        from mcranker.errors import ConfigError
        from mcranker.rankers import RANKERS

        try:
            kind = RANKERS.get(ranker)
        except ConfigError as failure:
            raise SuiteError(f"{place}: {failure}") from failure
        takes = _options_of(kind)
        options = {}
        for name, value in {**self.settings, **own}.items():
            if name not in takes:
                raise SuiteError(f"{place}: {self._unknown(name, own, ranker, takes)}")
            options[name] = self._value(name, value, takes[name], place)
        _try_out(kind, options, place)
        return options

    def _unknown(
        self, name: str, own: Mapping[str, Any], ranker: str, takes: Mapping[str, object]
    ) -> str:
        said = f"the ranker {ranker!r} takes no option {name!r}"
        if name in _KEPT_OUT:
            return f"{said}; {_KEPT_OUT[name]}"
        if name not in own:
            from mcranker.rankers import RANKERS

            others = [each for each in RANKERS.names if name in _options_of(RANKERS.get(each))]
            if others:
                return f"{said} of [settings]; put it beside the labels of {', '.join(others)}"
        close = difflib.get_close_matches(name, takes, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see 'mcranker rank --help' for all"
        return f"{said}; {hint}"

    def _value(self, name: str, value: Any, default: object, place: str) -> Any:
        where = f"{place}: {name}"
        if name == "model" or name.endswith("_model"):
            model = _text(value, where)
            if model in self.models:
                return self.models[model]
            return checked_model(located_model(model, self.base), where, self.models)
        if name == "members":
            return self._members(value, place)
        if name == "base_url":
            return _text(value, where)
        if name == "team":
            return self._team(value, where)
        if name == "prompts" and isinstance(value, str):
            return self._prompts(value)
        if isinstance(default, bool) and not isinstance(value, bool):
            raise SuiteError(f"{where}={value!r}: write true or false")
        return None if value == _NONE and _may_be_none(name) else value

    def _members(self, value: Any, place: str) -> list[Any]:
        """Members of a fusion: names, and tables as beside labels, each with options of its own."""
        if not isinstance(value, list):
            raise SuiteError(f"{place}: members={value!r}: write a list of labels, names or tables")
        members: list[Any] = []
        for each in value:
            if isinstance(each, Mapping) and "ranker" in each:
                own = {key: inner for key, inner in each.items() if key not in ("ranker", "label")}
                name = _text(each["ranker"], f"{place}: members: ranker")
                options = self.of(name, own, f"{place}: members: {name!r}")
                members.append({**options, "ranker": name, "label": each.get("label", name)})
            elif isinstance(each, Mapping) and "run" in each:
                run = _text(each["run"], f"{place}: members: run")
                members.append({**each, "run": beside(run, self.base) if self.base else run})
            else:
                name = _text(each, f"{place}: members")
                path = beside(name, self.base) if self.base else name
                members.append(path if is_file(path) else name)
        return members

    def _team(self, value: Any, where: str) -> str | list[str]:
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return value
        if not isinstance(value, str):
            raise SuiteError(
                f"{where}={value!r}: name a file, a team of the library, or a list of personas"
            )
        is_file = self.base is not None and Path(value).suffix.lower() in _TEAM_FILES
        return beside(value, cast("Path", self.base)) if is_file else value

    def _prompts(self, value: str) -> str:
        from personas.templates import BUILTIN_SETS

        return value if value in BUILTIN_SETS or self.base is None else beside(value, self.base)


def beside(name: str, base: Path) -> str:
    """The whole path of a file that `base` holds, or that is somewhere else by its own path."""
    return os.path.abspath(base / Path(name).expanduser())  # noqa: PTH100 - links stay


def located_model(model: str, base: Path | None) -> str:
    """Return ``local:FILE`` with the file's whole path, if it lies in `base`; else the model."""
    kind, colon, name = model.partition(":")
    if base is None or kind != "local" or not is_file(path := beside(name, base)):
        return model
    return f"{kind}{colon}{path}"


def checked_model(model: str, where: str, names: Mapping[str, str] | None = None) -> str:
    """The model's name, if it has the form of one.

    Args:
        model: as a user writes it.
        where: file and key, for messages.
        names: that could have been meant instead.

    Raises:
        SuiteError: it has not.
    """
    from mcranker.llm.provider import PROVIDERS

    kind, _, name = model.partition(":")
    if kind in PROVIDERS and name.strip():
        return model
    forms = ", ".join(f"{prefix}:NAME" for prefix in PROVIDERS.names)
    close = difflib.get_close_matches(model, names or (), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SuiteError(f"{where}={model!r} is no model: write {forms} or a name of [models]{hint}")


def _options_of(kind: type[Ranker]) -> dict[str, object]:
    """Option -> its default in the constructor; None for the fields of the configuration."""
    return {name: default for name, default in kind.takes().items() if name not in _KEPT_OUT}


def _may_be_none(name: str) -> bool:
    from mcranker.config import RankerConfig

    known = RankerConfig.model_fields.get(name)
    return known is not None and NoneType in get_args(known.annotation)


def _text(value: Any, where: str) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise SuiteError(f"{where}={value!r}: write a text")


def _without_models(member: Any) -> Any:
    """Return a fusion's member without its models, so that a stand-in answers."""
    if not isinstance(member, Mapping):
        return member
    kept = {
        name: value
        for name, value in member.items()
        if name not in ("base_url", "model", "batch", "max_passage_tokens")
        and not name.endswith("_model")
    }
    if kept.get("criteria") == "dataset":
        kept.setdefault("dataset", _STAND_IN)
    return kept


def _try_out(kind: type[Ranker], options: Mapping[str, Any], place: str) -> None:
    """Make the ranker with a model that is never asked, so that it refuses what it would later."""
    from mcranker.config import MOST_IN_A_CALL, RankerConfig
    from mcranker.errors import MCRankerError, UnsupportedCapability
    from mcranker.llm.chat import Capabilities
    from mcranker.llm.scripted import ScriptedChat
    from personas import PersonasError

    tried = {
        name: value
        for name, value in options.items()
        if name != "base_url" and name != "model" and not name.endswith("_model")
    }
    if tried.get("criteria") == "dataset":
        tried.setdefault("dataset", _STAND_IN)  # the data set has words of its own
    able = Capabilities(
        json_schema=True,
        label_logprobs=True,
        continuation_logprobs=True,
        prefill=True,
        max_questions=MOST_IN_A_CALL,
    )
    model = ScriptedChat(lambda _: "", capabilities=able)
    make = cast("Callable[..., Ranker]", kind)
    if isinstance(tried.get("members"), list):
        tried["members"] = [_without_models(each) for each in tried["members"]]
    try:
        fields = {name: tried[name] for name in tried if name in RankerConfig.model_fields}
        RankerConfig(**fields)
        # A batch needs a provider, and tokens a tokenizer, which the stand-in has not.
        make(model=model, ledger=None, **{**tried, "batch": False, "max_passage_tokens": None})
    except UnsupportedCapability:
        return  # what the stand-in lacks, the model that will be asked may have
    except (MCRankerError, PersonasError) as failure:
        raise SuiteError(f"{place}: {failure}") from failure
