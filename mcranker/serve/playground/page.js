"use strict";

// The rankers and examples of the server, the passages, the team as it was when it ranked and as it
// is edited, and the rankings that were made, the last one last, each with its request and grades.
const state = { rankers: [], examples: [], library: [], passages: [], grades: null, team: null, edited: null, editing: new Set(), done: [], open: new Set(), going: null };
const byId = (id) => document.getElementById(id);
const collator = new Intl.Collator("en");

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const counted = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
// Numbers of one column have as many digits; fused scores are sums of fractions such as 1/61.
function digits(values) {
  const known = values.filter((value) => typeof value === "number").map(Math.abs);
  const places = known.every(Number.isInteger) ? 0 : Math.max(...known) < 0.1 ? 5 : 2;
  return (value) => value.toFixed(places);
}
const rounded = (value) => String(Number(value.toFixed(2)));

// Passages: JSON, JSON lines, CSV or TSV with a column "text", or a passage a line.

function readPassages(text) {
  const trimmed = text.replace(/^\uFEFF/, "").trim();
  if (!trimmed) return [];
  if (trimmed[0] === "[") return records(JSON.parse(trimmed));
  if (trimmed[0] === "{") {
    const found = trimmed.split("\n").map((line) => line.trim()).filter(Boolean).map((line, place) => {
      try { return JSON.parse(line); } catch { throw new Error(`line ${place + 1} is not JSON`); }
    });
    return records(found);
  }
  const [head] = trimmed.split("\n", 1);
  for (const mark of ["\t", ","]) {
    const names = cells(head.trim(), mark)[0].map((name) => name.trim().toLowerCase());
    if (names.length > 1 && names.some((name) => ["text", "passage", "contents", "document"].includes(name))) {
      const [, ...rows] = cells(trimmed, mark);
      return records(rows.filter((row) => row.some((cell) => cell.trim())).map((row) => Object.fromEntries(names.map((name, place) => [name, row[place] ?? ""]))));
    }
  }
  const parts = /\n\s*\n/.test(trimmed) ? trimmed.split(/\n\s*\n/) : trimmed.split("\n");
  return parts.map((part) => part.trim()).filter(Boolean).map((part) => ({ text: part }));
}

function records(found) {
  const taken = new Set();
  return found.map((each, place) => {
    if (typeof each === "string") return { text: each };
    const text = each?.text ?? each?.passage ?? each?.contents ?? each?.document ?? each?.page_content;
    if (typeof text !== "string") throw new Error(`passage ${place + 1} has no text; give it a field "text"`);
    const made = { text, title: String(each.title ?? "") };
    const id = each._id ?? each.id ?? each.doc_id ?? each.docno;
    if (id !== undefined && id !== "") {
      if (taken.has(String(id))) throw new Error(`two passages have the id "${id}"`);
      taken.add(made._id = String(id));
    }
    return made;
  });
}

// Rows of a CSV text, with quotes as RFC 4180 has them.
function cells(text, mark) {
  const rows = [[]];
  let cell = "", quoted = false;
  for (let place = 0; place < text.length; place++) {
    const sign = text[place];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[place + 1] === '"') { cell += '"'; place++; } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === mark) { rows.at(-1).push(cell); cell = ""; }
    else if (sign === "\n") { rows.at(-1).push(cell.replace(/\r$/, "")); cell = ""; rows.push([]); }
    else cell += sign;
  }
  rows.at(-1).push(cell.replace(/\r$/, ""));
  return rows;
}

function showPassages(open = -1) {
  byId("count").textContent = state.passages.length ? counted(state.passages.length, "passage") : "No passages";
  byId("clear").disabled = !state.passages.length;
  byId("cards").replaceChildren(...state.passages.map((passage, place) => {
    const head = element("span", { dir: "auto" });
    const named = () => { head.textContent = `${place + 1}. ${passage.title || passage.text || "empty passage"}`; };
    const field = (tag, key, label, attributes = {}) => {
      const made = element(tag, { dir: "auto", oninput: () => { passage[key] = made.value; own(); named(); }, ...attributes });
      made.value = passage[key] ?? "";
      return element("label", {}, label, made);
    };
    named();
    const remove = () => { state.passages.splice(place, 1); own(); showPassages(); (byId("cards").querySelectorAll("summary")[Math.min(place, state.passages.length - 1)] ?? byId("add-passage")).focus(); };
    return element("li", {},
      element("details", { open: place === open }, element("summary", {}, head), field("input", "title", "Title"), field("textarea", "text", "Text", { rows: 4 })),
      element("button", { type: "button", "aria-label": `Remove passage ${place + 1}`, onclick: remove }, "✕"));
  }));
}

// Judgements are of an example as it was given.
function own() {
  state.grades = null;
  byId("example").value = "";
}

function readPasted() {
  let message, found = [];
  try {
    found = readPassages(byId("paste").value);
    message = found.length ? counted(found.length, "passage") : "no passages yet";
  } catch (error) { message = error.message; }
  byId("replace").disabled = byId("append").disabled = !found.length;
  byId("read").textContent = message;
  byId("read").classList.toggle("warn", !found.length && Boolean(byId("paste").value.trim()));
  return found;
}

function takePasted(kept) {
  try { state.passages = records([...kept, ...readPasted()]); } catch (error) { return complain(`Not added: ${error.message}.`, byId("paste")); }
  complain("");
  byId("paste").value = "";
  byId("many").open = false;
  own();
  readPasted();
  showPassages();
  byId("many").querySelector("summary").focus();
}

// The server

async function ask(path, options) {
  const response = await fetch(path, options);
  if (response.ok) return response;
  let message = `the server answered ${response.status}`;
  try { message = (await response.json()).error.message; } catch { /* not in our form */ }
  throw Object.assign(new Error(message), { status: response.status });
}

const post = (path, body, signal) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    kept += value;
    const blocks = kept.split("\n\n");
    kept = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (fields.event) yield [fields.event, JSON.parse(fields.data)];
    }
  }
}

async function rank(team) {
  const documents = state.passages.filter((each) => each.title?.trim() || each.text.trim());
  const query = byId("query").value.trim();
  if (!query) return complain("Write a query first.", byId("query"));
  if (!documents.length) return complain("Add a passage first, or take an example.", byId("add-passage"));
  const ranker = current(), { grades } = state;
  const body = { query, documents, ranker: ranker?.name };
  if (team) body.options = { team };
  const live = { documents: documents.map((each, place) => ({ ...each, id: each._id ?? String(place) })), team, personas: [], scores: new Map() };
  state.open.clear();
  drawTeam(live);
  drawLive(live);
  const { top } = byId("result").getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) byId("result").scrollIntoView();
  const failed = await work("Sent …", "Not ranked", async (signal) => {
    let made = null;
    for await (const [name, data] of events(await post("/v1/rank/stream", body, signal))) {
      if (name === "error") throw new Error(data.error.message);
      if (name === "ranking_done") made = data;
      else take(live, name, data);
    }
    if (!made) throw new Error("the connection was lost before the ranking was done");
    state.done.push({ ...made, query, body, grades, from: ranker });
    state.team = made.ranking.team?.members.length ? made.ranking.team : null;
    state.edited = structuredClone(state.team);
    state.editing.clear();
    return ranked();
  });
  drawTeam();
  if (!failed) return;
  if (state.done.at(-1)?.query === query) return drawRanking();
  byId("heat").hidden = true;
  showVerdict([judgeOf(ranker)]);
}

// The ranking is made again, from the ledger where there is one, and reasons come with it.
async function sayWhy() {
  const made = state.done.at(-1), { ranking, from, body } = made;
  const options = from.chooses_team && from.has_team && ranking.team ? { options: { team: ranking.team } } : {};
  const failed = await work("Asking for reasons …", "No reasons", async (signal) => {
    Object.assign(made, await (await post("/v1/rank", { ...body, ...options, reasons: 10 }, signal)).json());
    return ranked();
  });
  from.mute = failed?.status === 400 || failed?.status === 422;
  byId("why").hidden ||= from.mute;
}

// Show the last ranking; the result is its calls, and the answers that the ledger had.
function ranked() {
  drawRanking();
  const { calls, reused } = state.done.at(-1).ranking.usage;
  return [calls, reused.reduce((sum, each) => sum + each.calls, 0)];
}

// Do what can be cancelled and gives calls and known answers; the result is the error if it fails.
async function work(status, failed, make) {
  const going = state.going = new AbortController(), began = performance.now();
  const busy = (is) => {
    byId("cancel").hidden = !is;
    for (const id of ["add", "recruit", "why", "answer"]) byId(id).disabled = is;
    byId("result").setAttribute("aria-busy", String(is));
    updateAgain();
  };
  complain("");
  byId("status").textContent = status;
  busy(true);
  try {
    const [calls, kept] = await make(going.signal);
    const parts = [`Done in ${((performance.now() - began) / 1000).toFixed(1)} s`, counted(calls, "call")];
    if (kept) parts.push(`${counted(kept, "answer")} from the ledger`);
    byId("status").textContent = `${parts.join(", ")}.`;
    return null;
  } catch (error) {
    const stopped = going.signal.aborted;
    byId("status").textContent = stopped ? "Cancelled. What came is kept in the ledger." : "";
    if (!stopped) complain(`${failed}: ${error instanceof TypeError ? "the server cannot be reached" : error.message.replace(/\.$/, "")}.`);
    return error;
  } finally {
    state.going = null;
    busy(false);
  }
}

function take(live, name, data) {
  const status = byId("status");
  switch (name) {
    case "ranking_started":
      status.textContent = live.team ? "Scoring …" : "Looking for judges …";
      break;
    case "team_recruited":
      live.personas = data.personas.map((each) => each.name);
      live.team ??= { members: data.personas.map((persona) => ({ persona, rubric: null })) };
      drawTeam(live);
      drawLive(live);
      status.textContent = "Criteria are being written …";
      break;
    case "rubric_written": {
      const member = live.team?.members.find((each) => each.persona.name === data.persona);
      if (member) member.rubric ??= data.rubric;
      drawTeam(live);
      break;
    }
    case "passage_scored":
    case "passage_assessed": {
      const column = data.persona ?? "assessor";
      if (!live.personas.includes(column)) { live.personas.push(column); drawLive(live); }
      const score = [column, data.doc_id, data.missing ? null : data.value];
      live.scores.set(JSON.stringify(score.slice(0, 2)), score);
      fill(live, ...score);
      status.textContent = `${data.done} of ${data.total} scores`;
      break;
    }
    case "passages_compared":
      showVerdict([judgeOf(current()), "Passages are compared with one another; their ranks follow at the end."]);
      status.textContent = `${data.done} of at most ${data.total} comparisons`;
      break;
  }
}

function complain(message, where) {
  const problem = byId("problem");
  problem.textContent = message;
  problem.hidden = !message;
  if (message && where) where.focus();
}

// Questions

async function answer() {
  const question = byId("question").value.trim();
  if (!question) return complain("Write a question first.", byId("question"));
  byId("answered").hidden = true;
  await work("Sent …", "Not answered", async (signal) => {
    let made = null;
    for await (const [name, data] of events(await post("/v1/answer/stream", { question }, signal))) {
      if (name === "error") throw new Error(data.error.message);
      if (name === "answer_done") made = data;
      else if (name === "stage_started") byId("status").textContent = `${STAGES[data.name] ?? data.name} …`;
      else if (data.total) byId("status").textContent = `Ranking … ${data.done} of ${data.total}`;
    }
    if (!made) throw new Error("the connection was lost before the answer was done");
    drawAnswer(made);
    const sum = (key) => made.answer.stages.reduce((all, stage) => all + stage[key], 0);
    return [sum("calls"), sum("reused")];
  });
}

const STAGES = { query: "Writing queries", retrieval: "Searching", rerank: "Ranking", context: "Choosing passages", answer: "Writing the answer", citations: "Checking citations" };
const KINDS = { extract: "Sentences of the documents; no model wrote an answer.", abstained: "The documents do not answer this." };

function drawAnswer({ id, answer: made }) {
  const failed = made.stages.filter((stage) => stage.failure).map((stage) => `${STAGES[stage.name]} failed: ${stage.failure}`);
  const notes = [made.failure, ...made.warnings, ...failed].filter(Boolean).map((said) => [said, "warn"]);
  if (KINDS[made.kind]) notes.push([KINDS[made.kind], "note"]);
  byId("answer-notes").replaceChildren(...notes.map(([said, kind]) => element("li", { class: kind, dir: "auto" }, said)));
  const cited = ({ verdict, passage }) => (verdict === "found"
    ? element("a", { href: `#source-${passage}` }, `[${passage}]`)
    : element("span", { class: "warn" }, `[quote ${verdict}]`));
  byId("answer-text").replaceChildren(...made.sentences.flatMap((each) => [each.text, " ", ...each.citations.flatMap((place) => [cited(made.all_citations[place]), " "])]));
  const best = made.passages.toSorted((a, b) => (b.relevance ?? 0) - (a.relevance ?? 0)).slice(0, 3);
  const shown = made.kind === "abstained" ? best : made.passages.filter((each) => each.number).sort((a, b) => a.number - b.number);
  byId("sources").replaceChildren(...shown.map((each) => {
    const quotes = made.all_citations.filter(({ verdict, passage }) => verdict === "found" && passage === each.number);
    return element("li", { id: `source-${each.number}`, value: each.number || each.rank },
      element("details", { open: quotes.length > 0 }, element("summary", { dir: "auto" }, each.title || each.document, made.kind === "abstained" && each.relevance !== null ? ` (relevance ${each.relevance.toFixed(2)})` : ""), element("p", { dir: "auto" }, ...marked(each.text, quotes))));
  }));
  byId("answer-page").href = `/v1/explain/${id}`;
  byId("answered").hidden = false;
}

// A text with its quotes marked; their places count characters, of which JavaScript's may be halves.
function marked(text, quotes) {
  const signs = [...text], parts = [];
  let end = 0;
  for (const quote of quotes.filter((each) => each.start !== null).sort((a, b) => a.start - b.start)) {
    if (quote.start < end) continue;
    parts.push(signs.slice(end, quote.start).join(""), element("mark", {}, signs.slice(quote.start, quote.end).join("")));
    end = quote.end;
  }
  return [...parts, signs.slice(end).join("")];
}

// The team

const mayEdit = () => Boolean(current()?.chooses_team && current()?.has_team);
const current = () => state.rankers.find((each) => each.name === byId("ranker").value) ?? state.rankers[0];

// The team as it is edited, or the one of a ranking under way.
function drawTeam(live = null) {
  const team = live ? live.team : state.edited;
  byId("team").hidden = !team;
  if (!team) return;
  byId("members").replaceChildren(...team.members.map((member, place) => (state.editing.has(place) && !live ? editor(member, place) : card(member, place, live))));
  byId("adding").hidden = byId("recruit").hidden = Boolean(live) || !mayEdit();
  byId("save-team").hidden = Boolean(live);
  updateAgain();
}

const changed = () => Boolean(state.edited && JSON.stringify(state.edited) !== JSON.stringify(state.team));

// Criteria that are neither the team's nor the library's: a person wrote or weighted them.
const wrote = () => {
  const known = new Set([...state.team?.members ?? [], ...state.library].map((each) => JSON.stringify(each.rubric?.criteria)));
  return state.edited?.members.some((each) => each.rubric && !known.has(JSON.stringify(each.rubric.criteria)));
};

function updateAgain() {
  byId("unread").hidden = current()?.reads_criteria !== false || !wrote();
  const again = changed() && mayEdit(), empty = again && !state.edited.members.length;
  byId("team-state").textContent = empty ? "empty; add a persona" : changed() ? "changed" : "";
  byId("rank").textContent = again ? "Rank again with this team" : "Rank";
  byId("rank").disabled = Boolean(state.going) || empty;
}

function card(member, place, live) {
  const { persona, rubric } = member;
  const before = state.team?.members.find((each) => each.persona.name === persona.name);
  const isChanged = !live && JSON.stringify(before) !== JSON.stringify(member);
  const criteria = rubric
    ? [
      element("ol", {}, ...rubric.criteria.map((each) => element("li", {}, element("b", {}, `${rounded(each.weight)}%`), element("span", { dir: "auto" }, each.name)))),
      element("details", {}, element("summary", {}, "Persona and criteria"), element("p", { dir: "auto" }, persona.description),
        ...rubric.criteria.map((each) => element("p", { dir: "auto" }, element("b", {}, `${each.name}: `), each.description))),
    ]
    : [element("p", { class: "waits" }, live ? "writes criteria …" : "judges without criteria of its own")];
  const edit = mayEdit() && !live
    ? element("p", { class: "tools" },
      element("button", { type: "button", class: "edit", "aria-label": `Edit ${persona.name}`, onclick: () => { state.editing.add(place); drawTeam(); byId(`name-${place}`).focus(); } }, "Edit"),
      element("button", { type: "button", "aria-label": `Remove ${persona.name}`, onclick: () => { state.edited.members.splice(place, 1); state.editing.clear(); drawTeam(); byId("library").focus(); } }, "Remove"))
    : null;
  return element("article", { class: `member${isChanged ? " changed" : ""}` },
    element("div", { class: "headline" }, element("h3", { dir: "auto" }, persona.name), edit),
    ...criteria);
}

function editor(member, place) {
  const { persona } = member;
  const criteria = member.rubric?.criteria ?? [];
  const sum = element("span", { class: "sum", "aria-live": "polite" });
  const total = () => {
    const all = criteria.reduce((added, each) => added + each.weight, 0);
    if (!criteria.length) sum.textContent = "";
    else if (!all) sum.textContent = "criteria without a weight are left out";
    else sum.textContent = `weights add up to ${rounded(all)}%${Math.abs(all - 100) < 0.01 ? "" : "; they are scaled to 100%"}`;
    updateAgain();
  };
  // Buttons that are drawn again lose the focus.
  const redraw = (change, selector) => () => {
    change();
    drawTeam();
    byId("members").children[place].querySelector(selector).focus();
  };
  const field = (label, value, set, attributes = {}) => element("label", {}, label, element("input", { value, dir: "auto", oninput: (event) => { set(event.target.value); total(); }, ...attributes }));
  const rows = criteria.map((each, row) => element("div", { class: "criterion" },
    field("Criterion", each.name, (value) => { each.name = value; }),
    field("Weight %", rounded(each.weight), (value) => { each.weight = Math.max(0, Number(value) || 0); }, { type: "number", min: 0, step: "any", inputmode: "decimal" }),
    element("button", { type: "button", "aria-label": `Remove the criterion ${each.name}`, onclick: redraw(() => criteria.splice(row, 1), ".add") }, "✕"),
    element("label", { class: "about" }, "Description", element("input", { value: each.description, dir: "auto", oninput: (event) => { each.description = event.target.value; updateAgain(); } }))));
  const add = () => (member.rubric ??= { criteria: [], reason: "" }).criteria.push({ name: "", description: "", weight: 20 });
  total();
  return element("article", { class: "member changed" },
    element("div", { class: "who-is" },
      field("Name", persona.name, (value) => { persona.name = value; }, { id: `name-${place}` }),
      field("Description", persona.description, (value) => { persona.description = value; })),
    ...rows,
    element("p", { class: "tools" },
      element("button", { type: "button", class: "add", onclick: redraw(add, ".criterion:last-of-type input") }, "Add a criterion"),
      element("button", { type: "button", onclick: redraw(() => state.editing.delete(place), ".edit") }, "Done"), sum));
}

function teamToSend() {
  const team = structuredClone(state.edited);
  for (const member of team.members) {
    const criteria = (member.rubric?.criteria ?? []).filter((each) => each.name.trim() && each.weight > 0);
    if (!criteria.length) { member.rubric = null; continue; }
    const all = criteria.reduce((sum, each) => sum + each.weight, 0);
    member.rubric = { ...member.rubric, criteria: criteria.map((each) => ({ ...each, weight: (each.weight * 100) / all })) };
  }
  return team;
}

// The ranking

const colour = (value, top) => `h${top > 0 ? Math.round(10 * Math.min(1, Math.max(0, value / top))) : 0}`;

const topOf = (ranking) => {
  const { top_score, scale, labels } = ranking.config;
  if (top_score) return top_score;
  if (Array.isArray(labels) && labels.length) return labels.length - 1;
  if (typeof scale === "number") return scale;
  return Math.max(1, ...ranking.hits.flatMap((hit) => Object.values(hit.scores).filter((score) => score !== null)));
};

// The columns of a ranking: the personas' scores.
function columnsOf(ranking) {
  const names = ranking.personas, top = topOf(ranking);
  const value = (hit, name) => hit.scores[name] ?? null;
  const why = (hit, name) => hit.missing[name] ?? (typeof hit.dropped === "number" ? `dropped, its relevance is ${rounded(hit.dropped)}` : "not asked");
  const said = digits(ranking.hits.flatMap((hit) => names.map((name) => value(hit, name))));
  return { names, value, why, said, level: (score) => colour(score, top), ends: ["0", rounded(top)] };
}

function header(...columns) {
  byId("heat").hidden = false;
  byId("heat").tHead.replaceChildren(element("tr", {}, ...columns.map(([text, kind]) => element("th", { scope: "col", class: kind, dir: "auto" }, text))));
}

function drawLive(live) {
  header(["Passage", "name"], ...live.personas.map((name) => [name, "who"]), ["Score", "final"], ["Given at"]);
  showVerdict([judgeOf(current()), "Scores appear as they come; the order follows at the end."]);
  byId("saving").hidden = true;
  byId("heat").classList.remove("unscored");
  byId("heat").tBodies[0].replaceChildren(...live.documents.map((each, place) => element("tr", { "data-id": each.id },
    element("th", { scope: "row", class: "name" }, element("span", { class: "head", dir: "auto" }, each.title || each.text)),
    ...live.personas.map((name) => element("td", { class: "cell", "data-persona": name, "data-column": name })),
    element("td", { "data-column": "Score" }), element("td", { class: "move", "data-column": "Given at" }, String(place + 1)))));
  for (const score of live.scores.values()) fill(live, ...score);
}

function fill(live, persona, id, value) {
  const row = byId("heat").tBodies[0].querySelector(`tr[data-id="${CSS.escape(id)}"]`);
  const cell = row?.querySelector(`td[data-persona="${CSS.escape(persona)}"]`);
  if (!cell) return;
  cell.textContent = value === null ? "–" : rounded(value);
  if (value === null) return;
  live.top = Math.max(live.top ?? 10, value);
  cell.className = `cell ${colour(value, live.top)}`;
}

// nDCG@10 with linear gains, as in the reports.
function ndcg(ids, grades) {
  if (!grades) return null;
  const gain = (values) => values.slice(0, 10).reduce((sum, grade, place) => sum + Math.max(0, grade) / Math.log2(place + 2), 0);
  const best = gain(Object.values(grades).sort((a, b) => b - a));
  return best > 0 ? gain(ids.map((id) => grades[id] ?? 0)) / best : null;
}

const judgeOf = (ranker) => ranker?.judge || "No model judges.";

// Warnings come first, and first of them who judged; each is a text, or a text and its kind.
function showVerdict(said) {
  byId("verdict").replaceChildren(...said.map((each) => { const [text, kind] = [each].flat(); return element("li", { class: kind ?? "note", dir: "auto" }, text); }));
}

function verdict(now, before) {
  const judge = judgeOf(now.from), { hits } = now.ranking;
  const notes = (now.meta.warnings ?? []).map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`);
  const said = [[judge, notes.includes(judge) ? "warn" : "note"], ...notes.filter((note) => note !== judge).map((note) => [note, "warn"])];
  const bait = hits.filter((hit) => now.suspicions[hit.doc_id]);
  if (bait.length) said.push([`Possible spam or prompt injection: rank ${bait.map((hit) => hit.rank).join(", ")}.`, "warn"]);
  const measured = (order) => ndcg(order.map((hit) => hit.doc_id), now.grades)?.toFixed(3);
  if (measured(hits)) {
    const given = measured([...hits].sort((a, b) => a.first_stage_rank - b.first_stage_rank));
    const last = before ? `, ${measured(before.ranking.hits)} before` : "";
    said.push(`nDCG@10 is ${measured(hits)}${last}; as given ${given}.`);
  }
  if (before) {
    const moved = hits.filter((hit) => place(before, hit.doc_id) !== hit.rank);
    const same = JSON.stringify(before.ranking.team) === JSON.stringify(now.ranking.team);
    const rescored = hits.filter((hit) => find(before, hit.doc_id).score !== hit.score);
    if (moved.length) said.push(`${counted(moved.length, "passage")} moved since the last ranking.`);
    else if (rescored.length) said.push(`No passage moved since the last ranking; ${rescored.length} of ${counted(hits.length, "score")} changed.`);
    else said.push(["No passage moved and no score changed since the last ranking.", same ? "note" : "warn"]);
  }
  return said;
}

const find = (made, id) => made.ranking.hits.find((hit) => hit.doc_id === id);
const place = (made, id) => find(made, id)?.rank;

// Passages without ids of their own have those of their places, whatever their texts are.
function samePassages(one, other) {
  if (one.query !== other.query || one.ranking.hits.length !== other.ranking.hits.length) return false;
  return one.ranking.hits.every((hit) => {
    const found = find(other, hit.doc_id);
    return found && found.text === hit.text && found.title === hit.title;
  });
}

function drawRanking() {
  const now = state.done.at(-1);
  if (!now) return;
  const { ranking } = now;
  const before = state.done.slice(0, -1).findLast((each) => samePassages(each, now));
  const columns = columnsOf(ranking);
  const relevant = ranking.hits.some((hit) => typeof hit.relevance === "number");
  const shown = { ...columns, suspicions: now.suspicions, relevant, score: digits(ranking.hits.map((hit) => hit.score)), moved: before ? "Moved" : "Given at" };
  header(["Passage", "name"], ...columns.names.map((name) => [name, "who"]), ["Score", "final"], ...(relevant ? [["Relevance", "final"]] : []), [shown.moved]);
  byId("heat").classList.toggle("unscored", ranking.hits.every((hit) => hit.score === null));
  showVerdict(verdict(now, before));
  drawRamp(columns);
  byId("heat").tBodies[0].replaceChildren(...ranking.hits.flatMap((hit) => {
    const more = () => details(hit, shown, before);
    const made = row(hit, shown, before, now.grades, more);
    return state.open.has(hit.doc_id) ? [made, more()] : [made];
  }));
  byId("saving").hidden = false;
  byId("why").hidden = Boolean(now.from?.mute || !columns.names.length);
}

function drawRamp({ names, ends: [low, high] }) {
  const ramp = document.querySelector(".ramp");
  ramp.hidden = !names.length;
  ramp.replaceChildren(`${low} `, ...Array.from({ length: 11 }, (_, step) => element("i", { class: `h${step}` })), ` ${high}`);
}

function arrow(hit, before) {
  const from = before ? place(before, hit.doc_id) : hit.first_stage_rank;
  const by = from - hit.rank;
  const cell = element("td", { class: "move", "data-column": before ? "Moved" : "Given at" }, before ? "" : `${from} `);
  if (by) cell.append(element("span", { class: by > 0 ? "up" : "fell" }, `${by > 0 ? "▲" : "▼"}${Math.abs(by)}`));
  else if (before) cell.append("–");
  return cell;
}

function row(hit, columns, before, grades, more) {
  const isOpen = state.open.has(hit.doc_id);
  const grade = grades?.[hit.doc_id], suspicions = columns.suspicions[hit.doc_id], [reason] = Object.values(hit.reasons ?? {});
  return element("tr", { "data-id": hit.doc_id, class: hit.score === null ? "unjudged" : null },
    element("th", { scope: "row", class: "name" },
      element("button", { type: "button", "aria-expanded": String(isOpen), onclick: (event) => toggle(event.currentTarget, hit.doc_id, more) },
        element("span", { class: "rank" }, String(hit.rank)),
        element("span", { class: "what" }, element("span", { class: "head", dir: "auto" }, hit.title || hit.text),
          reason || hit.title ? element("span", { class: reason ? "snippet because" : "snippet", dir: "auto" }, ...(reason ? because(reason) : [hit.text])) : null,
          suspicions ? element("span", { class: "flag", title: suspicions.join("; ") }, "\u2691 suspicious") : null,
          grade === undefined ? null : element("span", { class: `grade${grade > 0 ? " relevant" : ""}` }, grade > 0 ? "relevant" : "not relevant")))),
    ...columns.names.map((name) => {
      const value = columns.value(hit, name);
      if (value === null) return element("td", { class: "cell", "data-column": name, title: columns.why(hit, name) }, "–");
      return element("td", { class: `cell ${columns.level(value)}`, "data-column": name }, columns.said(value));
    }),
    element("td", { class: "final", "data-column": "Score" }, hit.score === null ? "–" : columns.score(hit.score)),
    columns.relevant ? element("td", { class: "final", "data-column": "Relevance" }, hit.relevance?.toFixed(2) ?? "–") : null,
    arrow(hit, before));
}

// A judge that gives no reasons has the sentence nearest to the query.
function because({ text, quote, kind }) {
  const said = quote && quote !== text ? element("q", { dir: "auto" }, quote) : null;
  return (kind === "words" ? ["nearest sentence: ", said ?? text] : [text, said]).filter(Boolean).flatMap((each) => [each, " "]);
}

function details(hit, columns, before) {
  const then = before && find(before, hit.doc_id), past = before && columnsOf(before.ranking);
  const said = (of, at, name) => (of.value(at, name) === null ? "–" : of.said(of.value(at, name)));
  const lines = columns.names.map((name) => {
    const criteria = Object.entries(hit.criteria[name] ?? {}).map(([criterion, score]) => `${criterion} ${rounded(score)}`);
    let line = columns.value(hit, name) === null ? `no score: ${columns.why(hit, name)}` : said(columns, hit, name);
    if (then && !past.names.includes(name)) line += " (new)";
    else if (then && said(past, then, name) !== said(columns, hit, name)) line += ` (${said(past, then, name)} before)`;
    return element("li", { dir: "auto" }, `${name}: ${[line, ...(criteria.length ? [criteria.join(", ")] : [])].join("; ")}`,
      hit.reasons?.[name] ? element("p", { class: "because" }, ...because(hit.reasons[name])) : null);
  });
  const left = then ? past.names.filter((name) => !columns.names.includes(name)).map((name) => element("li", { dir: "auto" }, `${name} is no longer there (${said(past, then, name)})`)) : [];
  return element("tr", { class: "details" }, element("td", { colspan: columns.names.length + (columns.relevant ? 4 : 3) },
    hit.title ? element("p", { dir: "auto" }, element("b", {}, hit.title)) : null,
    element("p", { dir: "auto" }, hit.text),
    ...(columns.suspicions[hit.doc_id] ?? []).map((said) => element("p", { class: "warn", dir: "auto" }, said)),
    element("ul", {}, ...lines, ...left)));
}

// Only this row is drawn: there may be a thousand.
function toggle(button, id, more) {
  const shown = button.closest("tr"), opens = !state.open.delete(id);
  if (opens) { state.open.add(id); shown.after(more()); } else shown.nextElementSibling.remove();
  button.setAttribute("aria-expanded", String(opens));
}

// Saving

function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function savePage() {
  try {
    const response = await ask(`/v1/explain/${state.done.at(-1).id}`);
    save("ranking.html", await response.text(), "text/html");
  } catch (error) {
    complain(`The page could not be fetched: ${error.message}.`);
  }
}

// The beginning

async function readFile(file) {
  if (!file) return;
  if (file.size > 4_000_000) return complain(`${file.name} has ${file.size} bytes; take up to 4,000,000.`);
  try {
    byId("paste").value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return complain(`${file.name} is not UTF-8 text.`);
  }
  complain("");
  byId("many").open = true;
  readPasted();
}

function takeExample(place) {
  const example = state.examples[place];
  if (!example) return own();
  byId("example").value = place;
  byId("query").value = example.query;
  state.passages = records(example.documents);
  state.grades = example.grades;
  showPassages();
}

function addPassage() {
  own();
  showPassages(state.passages.push({ title: "", text: "" }) - 1);
  byId("cards").lastElementChild.querySelector("input").focus();
}

async function begin() {
  const start = (team) => { if (!state.going) rank(team); };
  const chosen = () => (changed() && mayEdit() ? teamToSend() : null);
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); start(chosen()); });
  byId("question-form").addEventListener("submit", (event) => { event.preventDefault(); if (!state.going) answer(); });
  byId("cancel").addEventListener("click", () => state.going?.abort());
  byId("why").addEventListener("click", sayWhy);
  byId("query").addEventListener("input", own);
  byId("add-passage").addEventListener("click", addPassage);
  byId("clear").addEventListener("click", () => { state.passages = []; own(); showPassages(); byId("add-passage").focus(); });
  byId("paste").addEventListener("input", readPasted);
  byId("replace").addEventListener("click", () => takePasted([]));
  byId("append").addEventListener("click", () => takePasted(state.passages));
  byId("file-button").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", (event) => { readFile(event.target.files[0]); event.target.value = ""; });
  byId("example").addEventListener("change", (event) => takeExample(event.target.value));
  byId("ranker").addEventListener("change", () => { if (!state.done.length) showVerdict([judgeOf(current())]); drawTeam(); });
  byId("recruit").addEventListener("click", () => start(null));
  byId("save-team").addEventListener("click", () => save("team.json", `${JSON.stringify(teamToSend(), null, 2)}\n`, "application/json"));
  byId("save-json").addEventListener("click", () => save("ranking.json", `${JSON.stringify(state.done.at(-1).ranking, null, 2)}\n`, "application/json"));
  byId("save-page").addEventListener("click", savePage);
  byId("add").addEventListener("click", () => {
    const member = state.library[Number(byId("library").value)];
    if (!member || !state.edited) return;
    if (state.edited.members.some((each) => each.persona.name === member.persona.name)) return complain(`${member.persona.name} is on the team already.`);
    complain("");
    state.edited.members.push(structuredClone(member));
    drawTeam();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); if (byId("questions").contains(event.target)) byId("question-form").requestSubmit(); else start(chosen()); }
    if (event.key === "Escape") state.going?.abort();
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    byId("ask").addEventListener(name, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      byId("ask").classList.toggle("over", name === "dragover");
      if (name === "drop") readFile(event.dataTransfer.files[0]);
    });
  }
  showVerdict(["Loading the rankers and examples …"]);
  try {
    const found = await (await ask("/playground.json")).json();
    state.rankers = found.rankers;
    state.examples = found.examples;
    byId("questions").hidden = !found.answers;
    state.library = found.members.sort((a, b) => collator.compare(a.persona.name, b.persona.name));
  } catch (error) {
    return complain(`The page could not be set up: ${error.message}.`);
  } finally { document.documentElement.dataset.ready = ""; }
  byId("ranker").replaceChildren(...state.rankers.map((each) => element("option", { value: each.name }, each.name)));
  document.querySelector(".ranker").hidden = state.rankers.length < 2;
  byId("example").append(...state.examples.map((each, number) => element("option", { value: number }, each.query)));
  document.querySelector(".example").hidden = !state.examples.length;
  byId("library").append(...state.library.map((each, number) => element("option", { value: number }, each.persona.name)));
  // Of all examples, the one that the embedded encoder helps about as much as the mean one.
  if (state.examples.length && !byId("query").value && !state.passages.length) takeExample(state.examples.length - 1); else showPassages();
  showVerdict([judgeOf(current()), "Rank to see the order, the score of each persona, and why."]);
}

begin();
