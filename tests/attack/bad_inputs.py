"""What users may get wrong on the command line and in the files they name, a line each.

``COMMAND ARGS => WORDS``: the command must fail in one line that has the words. ``^`` stands for
the byte 0xFF, which is no UTF-8. The files are those of `tests.attack.bad_files`.
"""

from __future__ import annotations

import shlex

__all__ = ["BAD", "parsed"]

BIG = "1" + 22 * "0"
LONG = 300 * "x"

_TABLE = f"""
# --- numbers ---
mcranker rank q a -o seed={BIG} => {BIG}
mcranker rank q a -o seed=-{BIG} => -{BIG}
mcranker rank q a -o seed=1.5 => 1.5
mcranker rank q a -o seed=nan => nan
mcranker rank q a -o 'seed=' => -o seed=:
mcranker rank q a --team-size {BIG} => {BIG}
mcranker rank q a --team-size 0 => --team-size
mcranker rank q a --team-size -3 => -3
mcranker rank q a --team-size two => two
mcranker rank q a -o scale={BIG} => {BIG}
mcranker rank q a -o scale=0 => 0
mcranker rank q a --depth {BIG} => {BIG}
mcranker rank q a --depth 0 => 0
mcranker rank q a --depth -1 => -1
mcranker rank q a --depth 1e3 => 1e3
mcranker rank q a -o example_rank={BIG} => {BIG}
mcranker rank q a -o max_passage_words={BIG} => {BIG}
mcranker rank q a -o cache_variant={BIG} => {BIG}
mcranker rank q a -o top_k={BIG} => {BIG}
mcranker rank q a -o max_tokens={BIG} => {BIG}
mcranker rank q a -o max_tokens=3 => 3
mcranker rank q a -o max_score_tokens={BIG} => {BIG}
mcranker rank q a -o max_calls={BIG} => {BIG}
mcranker rank q a -o max_calls=-1 => -1
mcranker rank q a -o concurrency={BIG} => {BIG}
mcranker rank q a -o concurrency=0 => 0
mcranker rank q a -o query_concurrency={BIG} => {BIG}
mcranker rank q a -o repair_attempts={BIG} => {BIG}
mcranker rank q a --top {BIG} => {BIG}
mcranker rank q a --top 0 => 0
mcranker rank q a -o temperature=nan => nan
mcranker rank q a -o temperature=inf => inf
mcranker rank q a -o temperature=-0.1 => -0.1
mcranker rank q a -o temperature=hot => hot
mcranker rank q a --max-cost inf => inf
mcranker rank q a --max-cost nan => nan
mcranker rank q a --max-cost -1 => -1
mcranker rank q a --max-cost 1e400 => 1e400
mcranker rank q a -o first_stage_weight=nan => nan
mcranker rank q a -o first_stage_weight=2 => 2
mcranker rank q a -o missing_constant=inf => inf
mcranker rank q a -o missing_constant=1e308 => 1e308
mcranker rank q a -o requests_per_minute=0 => 0
mcranker rank q a -o requests_per_minute=1e-300 => 1e-300
mcranker rank q a -o requests_per_minute=inf => inf
mcranker rank q a -o tokens_per_minute=nan => nan
mcranker rank q a -o tokens_per_minute=-5 => -5
mcranker recruit q -o seed={BIG} => {BIG}
mcranker recruit q --team-size {BIG} => {BIG}
mcranker inspect saved.json --top {BIG} => {BIG}
mcranker inspect saved.json --top none => none
mcranker ledger prune --older-than nan => nan
mcranker ledger prune --older-than inf => inf
mcranker ledger prune --older-than -1 => -1
mcranker ledger prune --older-than 1e300 --ledger gone.db => gone.db
mcranker demo --queries {BIG} => {BIG}
beir-eval run --dataset tiny --ranker direct --limit {BIG} => {BIG}
beir-eval run --dataset tiny --ranker direct --limit 0 => 0
beir-eval run --dataset tiny --ranker direct --depth {BIG} => {BIG}
beir-eval run --dataset tiny --ranker direct --depth 3000000000 => 3000000000
beir-eval run --dataset tiny --ranker direct -o seed={BIG} => {BIG}
beir-eval run --dataset tiny --ranker direct -o k1=nan => nan
beir-eval run --dataset tiny --ranker direct -o k1=inf => inf
beir-eval run --dataset tiny --ranker direct -o b=1.5 => 1.5
beir-eval run --dataset tiny --ranker direct -o b=nan => nan
beir-eval retrieve tiny --out o --depth {BIG} => {BIG}
beir-eval retrieve tiny --out o --limit {BIG} => {BIG}
beir-eval retrieve tiny --out o --k1 -1 => -1
beir-eval fuse run.trec run2.trec --out o --depth {BIG} => {BIG}
beir-eval fuse run.trec run2.trec --out o --method wsum --weights nan,1 => nan
beir-eval fuse run.trec run2.trec --out o --method wsum --weights 1e400,1 => inf
beir-eval fuse run.trec run2.trec --out o --method wsum --weights 1,2,3 => 3 weights
beir-eval fuse run.trec run2.trec --out o --method wsum --weights a,b => a,b
beir-eval fuse run.trec run2.trec --out o --param k=nan => nan
beir-eval fuse run.trec run2.trec --out o --param k => 'k'
beir-eval report runs --level nan => nan
beir-eval report runs --level 1 => 1
beir-eval compare "runs/scifact/DIRECT(0,10)" first-stage --queries {BIG} => {BIG}
beir-eval compare "runs/scifact/DIRECT(0,10)" first-stage --passages 0 => 0
personas report runs --out o --processes {BIG} => {BIG}
personas report runs --out o --processes 0 => 0
# --- words that are none ---
mcranker rnk => rnk
mcranker rank => query
mcranker rank q => no passage
mcranker rank '' a => empty
mcranker rank '  ' a => empty
mcranker rank q a --bogus => --bogus
mcranker rank q a --seed => --seed
mcranker rank q a -o preset=odd => odd
mcranker rank q a -o criteria=odd => odd
mcranker rank q a -o criteria=dataset => dataset
mcranker rank q a --scoring odd => odd
mcranker rank q a --ensemble odd => odd
mcranker rank q a -o missing_policy=odd => odd
mcranker rank q a -o labels=one --scoring expected => labels
mcranker rank q a -o labels=a,a --scoring expected => labels
mcranker rank q a -o labels=a,b => labels
mcranker rank q a -o 'require=' => require
mcranker rank q a -o require=A -o require=a => A
mcranker rank q a -o prompts=nowhere => nowhere
mcranker rank q a -o prompts=empty => empty
mcranker rank q a -o prompts=adir => adir
mcranker rank q a --ranker odd => odd
mcranker rank q a --team nobody_at_all => nobody_at_all
mcranker rank q a --team gone.yaml => gone.yaml
mcranker rank q a --team empty.yaml => empty.yaml
mcranker rank q a --team adir => adir
mcranker rank q a --team broken.yaml => broken.yaml
mcranker rank q a --output odd => odd
mcranker rank q a -o format=odd => odd
mcranker rank q a -o 'query_id=a b' --output trec => a b
mcranker rank q a -o top_k=3 --ensemble assessor => assessor
mcranker rank q a --queries queries.jsonl => --queries
mcranker rank --queries queries.jsonl => --run
mcranker rank --queries queries.jsonl --run run.trec => --corpus
mcranker rank q --run run.trec => --run
mcranker rank q a --docs docs.jsonl => --docs
mcranker rank --queries queries.jsonl --run run.trec --corpus corpus.jsonl --report o => --report
mcranker ledger prune => --all
mcranker ledger prune --all --unusable => --all
mcranker ledger odd => odd
mcranker models download odd => odd
mcranker models download '' => No local model
mcranker recruit q --out team.txt => team.txt
mcranker recruit q --lock => --lock
mcranker doctor --model odd --no-call --output odd => odd
beir-eval run => suite
beir-eval run tabel1 => tabel1
beir-eval run --ranker direct => data set
beir-eval run --dataset tiny => suite
beir-eval run --dataset tiny --ranker odd => odd
beir-eval run --dataset nowhere_at_all --ranker direct => nowhere_at_all
beir-eval run --dataset ./nowhere --ranker direct => ./nowhere
beir-eval run --dataset adir --ranker direct => adir
beir-eval run --dataset tiny --split odd --ranker direct => odd
beir-eval run --dataset tiny --split ../../tiny/qrels/test --ranker direct => ../../tiny/qrels/test
beir-eval run --dataset tiny --ranker direct --queries q9 => q9
beir-eval run --dataset tiny --ranker direct --queries q1,q1 => q1
beir-eval run --dataset tiny --ranker direct --queries , => ,
beir-eval run --dataset tiny --ranker direct --queries latin.jsonl => latin.jsonl
beir-eval run --dataset tiny --ranker direct --queries zero.bin => zero.bin
beir-eval run --dataset tiny --ranker direct --first-stage gone.trec => gone.trec
beir-eval run --dataset tiny --ranker direct --first-stage adir => adir
beir-eval run --dataset tiny --ranker direct --first-stage empty => empty
beir-eval run --dataset tiny --ranker direct --first-stage foreign.trec => foreign.trec
beir-eval run --dataset tiny --ranker direct --measures odd => odd
beir-eval run --dataset tiny --ranker direct --measures , => measure
beir-eval run --dataset tiny --ranker direct --measures nDCG@{BIG} => {BIG}
beir-eval run --dataset tiny --ranker direct --label data => data
beir-eval run --dataset tiny --ranker direct --label '***' => ***
beir-eval run --dataset tiny --ranker direct --label 'first stage' => first stage
beir-eval run --dataset tiny --ranker direct --ranker mcranker --label x => --label
beir-eval run --dataset tiny --ranker direct --use x => --use
beir-eval run suite.toml --use odd=openai:x => odd
beir-eval run suite.toml --use x => x
beir-eval run suite.toml --only odd => odd
beir-eval run suite.toml --ranker direct => --ranker
beir-eval run suite.toml -o scale=5 => scale
beir-eval run bad.toml => bad.toml
beir-eval run empty => empty
beir-eval run latin.toml => latin.toml
beir-eval suites adir => adir
beir-eval suites zero.bin => zero.bin
beir-eval evaluate run.trec => --qrels
beir-eval evaluate --qrels qrels.tsv => RUN
beir-eval evaluate run.trec --qrels qrels.tsv --dataset tiny => --qrels
beir-eval evaluate run.trec run.trec --qrels qrels.tsv => run.trec
beir-eval evaluate run.trec --qrels qrels.tsv --compare => --compare
beir-eval evaluate run.trec --qrels qrels.tsv --measures odd => odd
beir-eval evaluate run.trec --qrels qrels.tsv --measures 'nDCG(' => nDCG(
beir-eval fuse run.trec --out o => two
beir-eval fuse run.trec run2.trec => --out
beir-eval fuse run.trec run2.trec --out o --method odd => odd
beir-eval fuse run.trec run2.trec --out o --norm odd => odd
beir-eval fuse run.trec run2.trec --out o --tag 'a b' => a b
beir-eval retrieve tiny => --out
beir-eval retrieve tiny --out o --index corpus => --index
beir-eval retrieve tiny --out o --split odd => odd
beir-eval report => RUNS
beir-eval report runs --baseline odd => odd
beir-eval report runs --format odd => odd
beir-eval report runs --format md,html => --format
beir-eval report runs --measure odd => odd
beir-eval compare a => AFTER
beir-eval compare runs first-stage => runs
beir-eval compare first-stage first-stage => first-stage
beir-eval compare run.trec run2.trec => run.trec
beir-eval compare run.trec run2.trec --qrels qrels.tsv --dataset tiny => --qrels
beir-eval compare "runs/scifact/DIRECT(0,10)" first-stage --measure odd => odd
personas show nobody => nobody
personas show gone.yaml => gone.yaml
personas show adir => adir
personas show empty => empty
personas validate gone => 1 of 1 file
personas validate adir => adir
personas report runs => --out
personas report tiny --out o => tiny
personas report gone --out o => gone
personas report runs --out runs => runs
personas report runs --out tiny => tiny
personas report runs --out empty => empty
personas report runs --out o --against odd => odd
# --- names that are too long for a file ---
mcranker rank q --docs {LONG} => xxxx
mcranker rank q a --team {LONG} => xxxx
mcranker rank q a --team {LONG}.yaml => xxxx
mcranker rank q a -o prompts={LONG} => xxxx
mcranker rank q a --out {LONG} => xxxx
mcranker rank q a --save {LONG} => xxxx
mcranker rank q a --report {LONG} => xxxx
mcranker rank q a --ledger {LONG} => xxxx
mcranker inspect {LONG} => xxxx
mcranker models download {LONG} => xxxx
beir-eval run {LONG} => no suite 'xxxx
beir-eval run --dataset {LONG} --ranker direct => no data set 'xxxx
beir-eval run --dataset ./{LONG} --ranker direct => no folder './xxxx
beir-eval run --dataset tiny --ranker direct --queries {LONG} => has no query 'xxxx
beir-eval run --dataset tiny --ranker direct --first-stage {LONG} => xxxx
beir-eval run --dataset tiny --ranker direct --out {LONG} => xxxx
beir-eval evaluate {LONG} --qrels qrels.tsv => xxxx
beir-eval evaluate run.trec --qrels {LONG} => xxxx
beir-eval report {LONG} => no folder 'xxxx
beir-eval compare {LONG} first-stage => xxxx
personas show {LONG} => the library has no member and no team 'xxxx
personas validate {LONG} => 1 of 1 file
personas report {LONG} --out o => no folder 'xxxx
personas report runs --out o --against {LONG} => no run 'xxxx
# --- files ---
mcranker rank q --docs gone.jsonl => gone.jsonl
mcranker rank q --docs adir => adir
mcranker rank q --docs /dev/zero => /dev/zero
mcranker rank q --docs empty => empty
mcranker rank q --docs blank.jsonl => blank.jsonl
mcranker rank q --docs latin.jsonl => latin.jsonl:2
mcranker rank q --docs zero.bin => zero.bin:1
mcranker rank q --docs cut.jsonl => cut.jsonl:2
mcranker rank q --docs numbers.jsonl => numbers.jsonl:1
mcranker rank q --docs twice.jsonl => twice.jsonl:2
mcranker rank q --docs notext.jsonl => notext.jsonl:1
mcranker rank --queries noid.jsonl --run run.trec --corpus corpus.jsonl => noid.jsonl:1
mcranker rank q --docs boolid.jsonl => boolid.jsonl:1
mcranker rank q --docs surrogate.jsonl => surrogate.jsonl:1
mcranker rank q --docs bigscore.jsonl => bigscore.jsonl:1
mcranker rank q --docs nanscore.jsonl => nanscore.jsonl:1
mcranker rank q --docs deep.jsonl => deep.jsonl:1
mcranker rank q --docs deep.json => deep.json
mcranker rank q --docs digits.jsonl => digits.jsonl:1
mcranker rank q --docs number.json => number.json
mcranker rank q --docs columns.tsv => columns.tsv:2
mcranker rank q --docs score.tsv => score.tsv:2
mcranker rank q --docs docs.jsonl -o format=tsv => docs.jsonl:1
mcranker rank q --docs utf16.jsonl => utf16.jsonl:1
mcranker rank --queries empty --run run.trec --corpus corpus.jsonl => empty
mcranker rank --queries docs.jsonl --run run.trec --corpus corpus.jsonl => docs.jsonl
mcranker rank --queries queries.jsonl --run docs.jsonl --corpus corpus.jsonl => docs.jsonl:1
mcranker rank --queries queries.jsonl --run bad.trec --corpus corpus.jsonl => bad.trec:1
mcranker rank --queries queries.jsonl --run run.trec --corpus docs.jsonl => docs.jsonl
mcranker rank --queries queries.jsonl --run run.trec --corpus gone => gone
mcranker rank q a --out adir => adir
mcranker rank q a --out gone/o.txt => gone/o.txt
mcranker rank q a --out o --save o => o
mcranker rank q a --save adir => adir
mcranker rank q a --report gone/o.html => gone/o.html
mcranker rank q a --out /proc/nothing => /proc/nothing
mcranker rank q a --ledger adir => adir
mcranker rank q a --ledger docs.jsonl => docs.jsonl
mcranker ledger stats --ledger gone.db => gone.db
mcranker ledger stats --ledger adir => adir
mcranker ledger verify --ledger zero.bin => zero.bin
mcranker ledger export --ledger docs.jsonl => docs.jsonl
mcranker inspect gone => gone
mcranker inspect adir => adir
mcranker inspect empty => empty
mcranker inspect docs.jsonl => docs.jsonl:1
mcranker inspect latin.jsonl => latin.jsonl:1
mcranker inspect zero.bin => zero.bin:1
mcranker inspect deep.json => deep.json
mcranker inspect number.json => number.json
mcranker inspect cut.json => cut.json
mcranker inspect saved.json --query odd => odd
mcranker inspect saved.json --passage 99 => 99
mcranker inspect saved.json --passage {BIG} => {BIG}
mcranker inspect saved.json --qrels empty => empty
mcranker inspect saved.json --qrels grade.tsv => grade.tsv:2
mcranker inspect saved.json --html saved.json => --html
mcranker inspect saved.json --html gone/o.html => gone/o.html
mcranker inspect runs => runs
mcranker inspect runs/scifact/data => data
beir-eval evaluate gone --qrels qrels.tsv => gone
beir-eval evaluate adir --qrels qrels.tsv => adir
beir-eval evaluate /dev/zero --qrels qrels.tsv => /dev/zero
beir-eval evaluate run.trec --qrels /dev/zero => /dev/zero
beir-eval evaluate bad.trec --qrels qrels.tsv => bad.trec:1
beir-eval evaluate latin.jsonl --qrels qrels.tsv => latin.jsonl:1
beir-eval evaluate zero.bin --qrels qrels.tsv => zero.bin:1
beir-eval evaluate run.trec --qrels empty => empty
beir-eval evaluate run.trec --qrels gone => gone
beir-eval evaluate run.trec --qrels adir => adir
beir-eval evaluate run.trec --qrels grade.tsv => grade.tsv:2
beir-eval evaluate run.trec --qrels zero.bin => zero.bin:1
beir-eval evaluate run.trec --dataset ./gone => ./gone
beir-eval fuse run.trec bad.trec --out o => bad.trec:1
beir-eval fuse run.trec run2.trec --out adir => adir
beir-eval fuse run.trec run2.trec --out gone/o => gone/o
beir-eval retrieve tiny --out adir => adir
beir-eval retrieve tiny --out gone/o => gone/o
beir-eval retrieve nocorpus --out o => corpus.jsonl
beir-eval retrieve noqueries --out o => queries.jsonl
beir-eval retrieve grades --out o => test.tsv:2
beir-eval retrieve twice --out o => corpus.jsonl:2
beir-eval retrieve badgz --out o => corpus.jsonl.gz
beir-eval run --dataset tiny --ranker direct --out docs.jsonl => docs.jsonl
beir-eval run --dataset tiny --ranker direct --out /proc/nothing => /proc/nothing
beir-eval run --dataset tiny --ranker direct --team gone.yaml => gone.yaml
beir-eval report gone => gone
beir-eval report docs.jsonl => docs.jsonl
beir-eval report tiny => tiny
beir-eval report runs --out docs.jsonl/x => docs.jsonl
beir-eval compare gone first-stage => gone
beir-eval compare "runs/scifact/DIRECT(0,10)" bad.trec => bad.trec:1
personas show broken.yaml => broken.yaml
personas show empty.yaml => empty.yaml
personas show deep.json => deep.json
personas validate broken.yaml empty.yaml => 2 of 2 files
# --- bytes that are no UTF-8 ---
mcranker rank q --docs ^ => \\udcff
mcranker rank q a -o query_id=^ => id
mcranker rank q a -o title_separator=^ => title_separator
mcranker rank q a -o dataset=^ -o criteria=dataset => dataset
mcranker rank q a -o labels=^,b --scoring expected => labels
mcranker rank q a -o require=^ => \\udcff
mcranker rank q a -o forbid=^ => forbid
mcranker rank q a -o prompts=^ => prompts
mcranker rank q a --team ^ => \\udcff
mcranker rank q a --team ^.yaml => \\udcff.yaml
mcranker rank q a --^ => \\udcff
mcranker ^ => \\udcff
mcranker inspect ^ => \\udcff
mcranker inspect saved.json --query ^ => \\udcff
mcranker inspect saved.json --passage ^ => \\udcff
mcranker models download ^ => \\udcff
beir-eval run ^ => \\udcff
beir-eval run --dataset ^ --ranker direct => \\udcff
beir-eval run --dataset tiny --ranker direct --label a^ => a\\udcff
beir-eval run --dataset tiny --ranker direct --queries ^ => \\udcff
beir-eval run --dataset tiny --ranker direct --split ^ => \\udcff
beir-eval run --dataset tiny --ranker direct --measures ^ => \\udcff
beir-eval run --dataset tiny --ranker direct --model openai:^ --out o => \\udcff
beir-eval run --dataset ^tiny --ranker direct --out o => \\udcff
beir-eval run --dataset tiny --ranker mcranker --team ^team.yaml --out o => \\udcff
beir-eval evaluate ^ --qrels qrels.tsv => \\udcff
beir-eval evaluate run.trec --qrels ^ => \\udcff
beir-eval fuse run.trec run2.trec --out o --tag ^ => \\udcff
beir-eval report ^ => \\udcff
beir-eval compare ^ first-stage => \\udcff
personas show ^ => \\udcff
personas validate ^ => 1 of 1 file
personas report ^ --out o => \\udcff
"""


def parsed(line: str) -> tuple[str, list[str], str]:
    """The command, its arguments, and the words that its one line must have."""
    given, _, words = line.partition(" => ")
    command, *args = shlex.split(given)
    return command, [arg.replace("^", "\udcff") for arg in args], words


BAD = [line for line in _TABLE.splitlines() if line and not line.startswith("#")]
