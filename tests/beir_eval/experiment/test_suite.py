"""Suites: what a TOML file becomes, and that every mistake in one is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from beir_eval.errors import SuiteError
from beir_eval.experiment.run_folder import FigureNote, SuiteNote
from beir_eval.experiment.suite import DatasetSpec, load_suite
from beir_eval.experiment.suite_form import folder_name
from personas import Member, Persona, Team, save

HEAD = 'title = "T"\ndatasets = ["mini"]\n'
TWO = '[[rankers]]\nlabel = "A"\n[[rankers]]\nlabel = "B"\nranker = "direct"\n'


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """Where the suite under test is written."""
    return tmp_path / "mine.toml"


def refusal(file: Path, text: str) -> str:
    """What is said about the file with this text, without its path."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        load_suite(file)
    said = str(caught.value)
    assert said.startswith(str(file)), said
    assert "\n" not in said
    return said.removeprefix(str(file))


def test_everything_of_a_file_arrives(write: Path) -> None:
    write.write_text(
        """
        title = " Two rankers "
        description = '''
        First line.
        Second.
        '''
        datasets = ["scifact", {name = "nfcorpus", split = "dev", about = "Medicine"}]
        baseline = "DIRECT(0,10)"
        paper_table = "table_5_and_1"
        paper_rows = ["BM25", "RankT5 (fine-tuned T5 XL)"]
        depth = 20
        [settings]
        preset = "reference"
        scale = 5
        [models]
        strong = "openai:gpt-5"
        [figure]
        kind = "line"
        title = "F"
        x_label = "n"
        paper = "fig_2"
        [[rankers]]
        label = "DIRECT(0,10)"
        ranker = "direct"
        scale = 10
        paper_row = "DIRECT(0,10)"
        [[rankers]]
        label = "team"
        team_size = 2
        nlp_scientist = false
        criteria_model = "strong"
        model = "local:smollm2-135m"
        temperature = "none"
        x = 2
        series = "s"
        """,
        encoding="utf-8",
    )

    suite = load_suite(write)

    figure = FigureNote(kind="line", title="F", x_label="n", paper="fig_2")
    assert (suite.name, suite.title, suite.depth) == ("mine", "Two rankers", 20)
    assert suite.description.split() == ["First", "line.", "Second."]
    assert suite.datasets == (DatasetSpec("scifact"), DatasetSpec("nfcorpus", "dev", "Medicine"))
    assert suite.models == {"strong": "openai:gpt-5"}
    assert suite.figure == figure
    direct, team = suite.rankers
    assert (direct.label, direct.ranker) == ("DIRECT(0,10)", "direct")
    assert direct.options == {"preset": "reference", "scale": 10}
    assert direct.own == {"scale"}
    assert (team.label, team.ranker) == ("team", "mcranker")
    assert team.options == {
        "preset": "reference",
        "scale": 5,
        "team_size": 2,
        "nlp_scientist": False,
        "criteria_model": "openai:gpt-5",
        "model": "local:smollm2-135m",
        "temperature": None,
    }
    assert team.own == set(team.options) - {"preset", "scale"}
    assert team.note == SuiteNote(
        name="mine",
        title="Two rankers",
        paper_table="table_5_and_1",
        baseline="DIRECT(0,10)",
        figure=figure,
        place=1,
        x=2.0,
        series="s",
        rankers=("DIRECT(0,10)", "team"),
        paper_rows={"DIRECT(0,10)": "DIRECT(0,10)"},
        not_run=("BM25", "RankT5 (fine-tuned T5 XL)"),
    )
    assert direct.note == SuiteNote(
        name="mine",
        title="Two rankers",
        paper_table="table_5_and_1",
        baseline="DIRECT(0,10)",
        figure=figure,
        paper_row="DIRECT(0,10)",
        rankers=("DIRECT(0,10)", "team"),
        paper_rows={"DIRECT(0,10)": "DIRECT(0,10)"},
        not_run=("BM25", "RankT5 (fine-tuned T5 XL)"),
    )


def test_models_given_take_the_place_of_those_written(write: Path) -> None:
    write.write_text(
        HEAD
        + '[models]\nstrong = "openai:a"\nsmall = "openai:b"\n[settings]\nmodel = "small"\n'
        + '[[rankers]]\nlabel = "A"\ncriteria_model = "strong"\n',
        encoding="utf-8",
    )

    suite = load_suite(write, models={"strong": "anthropic:c"})

    assert suite.models == {"strong": "anthropic:c", "small": "openai:b"}
    assert suite.rankers[0].options == {"model": "openai:b", "criteria_model": "anthropic:c"}
    with pytest.raises(SuiteError, match=r"no model 'strnog' in \[models\]; did you mean 'strong'"):
        load_suite(write, models={"strnog": "openai:c"})
    with pytest.raises(SuiteError, match="models: small='gpt-5' is no model"):
        load_suite(write, models={"small": "gpt-5"})


def test_files_are_looked_for_beside_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "suites"
    for folder in ("docs/pets", "scifact", "mini"):
        (home / folder).mkdir(parents=True)
    save(Team(members=(Member(persona=Persona(name="Vet")),)), home / "vets.yaml")
    (home / "small.gguf").write_bytes(b"GGUF")
    (home / "mine.toml").write_text(
        """
        title = "T"
        datasets = ["docs/pets", "mini", "./mini", "scifact", "../elsewhere", "beir/fiqa/test"]
        [settings]
        model = "local:docs/../small.gguf"
        [[rankers]]
        label = "A"
        team = "docs/../vets.yaml"
        scoring_model = "local:not-here.gguf"
        [[rankers]]
        label = "B"
        ranker = "direct"
        team = ["nlp_scientist", "Vet"]
        prompts = "paper"
        """,
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)

    suite = load_suite("suites/mine.toml")

    assert [each.name for each in suite.datasets] == [
        str(home / "docs" / "pets"),
        "mini",
        str(home / "mini"),
        "scifact",
        str(tmp_path / "elsewhere"),
        "beir/fiqa/test",
    ]
    of_file, of_names = (ranker.options for ranker in suite.rankers)
    assert of_file["team"] == str(home / "vets.yaml")
    assert of_file["model"] == f"local:{home / 'small.gguf'}"
    assert of_file["scoring_model"] == "local:not-here.gguf"
    assert of_names["team"] == ["nlp_scientist", "Vet"]
    assert of_names["prompts"] == "paper"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('title = "T\n', ": not TOML: Illegal character '\\n' (at line 1, column 11)"),
        (TWO, ": the key 'title' is missing; add it"),
        ("depht = 3\n" + HEAD + TWO, ": there is no option 'depht'; did you mean 'depth'?"),
        (
            'model = "openai:a"\n' + HEAD + TWO,
            ": 'model' is an option of rankers; write it under [settings] or beside a label",
        ),
        ("depth = 0\n" + HEAD + TWO, ": depth must be at least 1, not 0"),
        (
            'title = "T"\ndatasets = [{name = "mini", splt = "dev"}]\n' + TWO,
            ": there is no option 'datasets 1.splt'; did you mean 'datasets 1.split'?",
        ),
        (HEAD + TWO + "[[rankers]]\nteam_size = 2\n", ": the key 'rankers 3.label' is missing"),
        (HEAD + TWO + "x = nan\n", ": rankers 2.x=nan: write a number, or a bar's name as a text"),
        (
            HEAD + TWO + '[figure]\nkind = "pie"\ntitle = "F"\n',
            ": figure.kind must be 'line' or 'bars'",
        ),
        (
            HEAD + TWO + '[models]\nbig = "gpt-5"\n',
            ": models: big='gpt-5' is no model: write openai:NAME, anthropic:NAME, local:NAME",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_place(write: Path, text: str, said: str) -> None:
    assert refusal(write, text).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TWO + '[[rankers]]\nlabel = "A"\n', ": label 'A' appears twice; change one of them"),
        (
            TWO + '[[rankers]]\nlabel = "a!"\n',
            ": labels 'A' and 'a!' give the same folder 'a'; change one of them",
        ),
        (TWO + '[[rankers]]\nlabel = "Data"\n', ": label 'Data' gives the folder 'data', which"),
        (TWO + '[[rankers]]\nlabel = "你好"\n', ": label '你好' gives no folder name; use letters"),
        ('baseline = "C"\n' + TWO, ": baseline='C' is no label; there are A, B"),
        (
            'paper_table = "table_2"\n' + TWO,
            ": paper_table='table_2' is none of the paper's; did you mean 'table_2_criteria'?",
        ),
        (TWO + 'paper_row = "MCRanker"\n', ": ranker 'B': paper_row='MCRanker' needs the table"),
        (TWO + "x = 1\n", ": ranker 'B': x and series are places in a figure; add [figure]"),
        (TWO + "[figure]\nkind = 'line'\ntitle = 'F'\n", ": figure: no ranker has a place in it"),
        (
            TWO + "x = 1\n[figure]\nkind = 'bars'\ntitle = 'F'\n",
            ": ranker 'B': x=1.0 should be a text, the bar's name, in a figure of kind 'bars'",
        ),
        (
            TWO + "x = 1\n[[rankers]]\nlabel='C'\nx = 1.0\n[figure]\nkind = 'line'\ntitle = 'F'\n",
            ": ranker 'C': x=1.0 is the place of 'B' already; give them different x or series",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(write: Path, text: str, said: str) -> None:
    assert refusal(write, HEAD + text).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('ranker = "dirct"', "there is no ranker 'dirct'; did you mean 'direct'?"),
        ("team_sise = 2", "the ranker 'mcranker' takes no option 'team_sise'; did you mean 'team_"),
        ('api_key = "k"', "the ranker 'mcranker' takes no option 'api_key' here; set OPENAI_API"),
        ('ledger = "l"', "one ledger serves all runs; give it as --ledger"),
        ("scale = 0", "scale must be at least 1, not 0"),
        ('scale = 5\nscoring = "expected"\nlabels = ["n", "y"]', "labels are a scale of their own"),
        ('criteria = "none"\nscoring = "per_criterion"', 'scoring="per_criterion" needs criteria'),
        ('temperature = "some"', "temperature must be a number"),
        ('criteria_model = "gpt-5"', "criteria_model='gpt-5' is no model: write openai:NAME, "),
        ("team = []", "team=[]: give a Team, a file, the name of a library team, or a list"),
        ('team = "no-such-team"', "the library has no team 'no-such-team'; it has "),
        ('prompts = "wording"', "there is no prompt folder"),
        ('ranker = "direct"\nensemble = "assessor"', "ensemble='assessor' combines the scores of"),
    ],
)
def test_options_are_checked_as_the_ranker_takes_them(write: Path, text: str, said: str) -> None:
    found = refusal(write, f'{HEAD}[[rankers]]\nlabel = "Mine"\n{text}\n')
    assert found.startswith(f": ranker 'Mine': {said}")


def test_a_setting_that_one_ranker_does_not_take_names_that_ranker(write: Path) -> None:
    settings = '[settings]\nassessor_model = "openai:a"\n'
    assert refusal(write, HEAD + settings + TWO) == (
        ": ranker 'B': the ranker 'direct' takes no option 'assessor_model'; "
        "it goes with mcranker, rankgpt"
    )


def test_no_such_suite_and_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"^no suite 'tabel1': neither .* did you mean 'table1'\?"):
        load_suite("tabel1")
    with pytest.raises(SuiteError, match="neither a file nor one that comes with the package"):
        load_suite(tmp_path)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'title = "Touch\xe9"\n')
    with pytest.raises(SuiteError, match=r"latin\.toml: not UTF-8 \(byte 15\)"):
        load_suite(latin)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("DIRECT(0,10)", "direct-0-10"),
        ("MC: NLP scientist + 2 recruits", "mc-nlp-scientist-2-recruits"),
        ("../Émile & Zoë/..", "emile-zoe"),
        ("x" * 79 + " yz", "x" * 79),
        ("x" * 100, "x" * 80),
    ],
)
def test_folder_names(label: str, name: str) -> None:
    assert folder_name(label) == name
