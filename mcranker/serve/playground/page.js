"use strict";

// What is known: the rankers and examples of the server, the passages, the team as it was when it
// ranked and as it is edited, and the rankings that were made, the last one last.
const state = { rankers: [], examples: [], library: [], grades: null, team: null, edited: null, editing: new Set(), done: [], open: new Set(), going: null };
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
const rounded = (value) => String(Math.round(value * 100) / 100);

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

function showCount() {
  const count = byId("count");
  try {
    const found = readPassages(byId("passages").value);
    count.textContent = found.length ? counted(found.length, "passage") : "no passages yet";
    count.classList.remove("warn");
    return found;
  } catch (error) {
    count.textContent = error.message;
    count.classList.add("warn");
    return null;
  }
}

// The server

async function ask(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) {
    let message = `the server answered ${response.status}`;
    try { message = (await response.json()).error.message; } catch { /* not in our form */ }
    throw new Error(message);
  }
  return response;
}

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
  const documents = showCount();
  const query = byId("query").value.trim();
  if (!query) return complain("Write a query first.", byId("query"));
  if (!documents) return complain(byId("count").textContent, byId("passages"));
  if (!documents.length) return complain("Give some passages first, or take an example.", byId("passages"));
  complain("");
  const body = { query, documents, ranker: byId("ranker").value || undefined };
  if (team) body.options = { team };
  const going = new AbortController();
  state.going = going;
  const live = { documents: documents.map((each, place) => ({ ...each, id: each._id ?? String(place) })), personas: [], scores: new Map(), compared: false };
  busy(true);
  if (!team) { state.team = state.edited = null; state.editing.clear(); }
  byId("result").hidden = false;
  state.open.clear();
  drawLive(live);
  const began = performance.now();
  try {
    const response = await ask("/v1/rank/stream", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: going.signal });
    let made = null;
    for await (const [name, data] of events(response)) {
      if (name === "error") throw new Error(data.error.message);
      if (name === "ranking_done") made = data;
      else take(live, name, data);
    }
    if (!made) throw new Error("the connection was lost before the ranking was done");
    finish(made, query, (performance.now() - began) / 1000);
  } catch (error) {
    const stopped = going.signal.aborted;
    byId("status").textContent = stopped ? "Cancelled. Scores that came are kept in the ledger." : "";
    if (!stopped) complain(error instanceof TypeError ? "The server cannot be reached." : `Not ranked: ${error.message}.`.replace("..", "."));
    const last = state.done.at(-1);
    if (last && last.query === query) drawRanking(); else byId("result").hidden = true;
    drawTeam();
  } finally {
    if (state.going === going) state.going = null;
    busy(false);
  }
}

function take(live, name, data) {
  const status = byId("status");
  switch (name) {
    case "ranking_started":
      status.textContent = state.team ? "Scoring …" : "Looking for judges …";
      break;
    case "team_recruited":
      live.personas = data.personas.map((each) => each.name);
      if (!state.edited) state.team = { members: data.personas.map((persona) => ({ persona, rubric: null })) };
      drawTeam(true);
      drawLive(live);
      status.textContent = "Criteria are being written …";
      break;
    case "rubric_written": {
      const member = state.team?.members.find((each) => each.persona.name === data.persona);
      if (member && !member.rubric) member.rubric = data.rubric;
      drawTeam(true);
      break;
    }
    case "passage_scored":
    case "passage_assessed": {
      const column = data.persona ?? "assessor";
      if (!live.personas.includes(column)) { live.personas.push(column); drawLive(live); }
      live.scores.set(`${column}\n${data.doc_id}`, data.missing ? null : data.value);
      fill(live, column, data.doc_id);
      status.textContent = `${data.done} of ${data.total} scores`;
      break;
    }
    case "passages_compared":
      status.textContent = `${data.done} of at most ${data.total} comparisons`;
      break;
  }
}

function finish(made, query, seconds) {
  const ranking = made.ranking;
  state.done.push({ id: made.id, query, ranking, notes: made.notes });
  state.team = ranking.team && ranking.team.members.length ? ranking.team : null;
  state.edited = state.team ? structuredClone(state.team) : null;
  state.editing.clear();
  const usage = ranking.usage;
  const reused = usage.reused.reduce((sum, each) => sum + each.calls, 0);
  const parts = [`Done in ${seconds.toFixed(1)} s`, counted(usage.calls, "call")];
  if (reused) parts.push(`${counted(reused, "answer")} from the ledger`);
  byId("status").textContent = `${parts.join(", ")}.`;
  drawTeam();
  drawRanking();
}

function busy(is) {
  byId("rank").disabled = is;
  byId("cancel").hidden = !is;
  for (const id of ["again", "add", "recruit"]) byId(id).disabled = is;
  byId("result").setAttribute("aria-busy", String(is));
  if (!is) updateAgain();
}

function complain(message, where) {
  const problem = byId("problem");
  problem.textContent = message;
  problem.hidden = !message;
  if (message && where) where.focus();
}

// The team

const mayEdit = () => Boolean(current()?.chooses_team && current()?.has_team);
const current = () => state.rankers.find((each) => each.name === byId("ranker").value) ?? state.rankers[0];

function drawTeam(live = false) {
  const team = live ? state.team : state.edited;
  byId("team").hidden = !team;
  if (!team) return;
  byId("members").replaceChildren(...team.members.map((member, place) => (state.editing.has(place) && !live ? editor(member, place) : card(member, place, live))));
  byId("adding").hidden = live || !mayEdit();
  byId("recruit").hidden = live || !mayEdit();
  byId("save-team").hidden = live;
  updateAgain();
}

function changed() {
  return Boolean(state.edited && JSON.stringify(state.edited) !== JSON.stringify(state.team));
}

function updateAgain() {
  const is = changed();
  byId("team-state").textContent = is ? "changed; rank again to see what moves" : "";
  byId("again").disabled = !is || Boolean(state.going) || !state.edited.members.length;
}

function card(member, place, live) {
  const { persona, rubric } = member;
  const before = state.team?.members.find((each) => each.persona.name === persona.name);
  const isChanged = !live && JSON.stringify(before) !== JSON.stringify(member);
  const criteria = rubric
    ? [
      element("ol", {}, ...rubric.criteria.map((each) => element("li", {}, element("b", {}, `${rounded(each.weight)}%`), element("span", { dir: "auto" }, each.name)))),
      element("details", {}, element("summary", {}, "Who that is, and what a passage must do"), element("p", { dir: "auto" }, persona.description),
        ...rubric.criteria.map((each) => element("p", { dir: "auto" }, element("b", {}, `${each.name}: `), each.description))),
    ]
    : [element("p", { class: "waits" }, live ? "writes criteria …" : "judges without criteria of its own")];
  const edit = mayEdit() && !live
    ? element("p", { class: "tools" },
      element("button", { type: "button", "aria-label": `Edit ${persona.name}`, onclick: () => { state.editing.add(place); drawTeam(); byId(`name-${place}`).focus(); } }, "Edit"),
      element("button", { type: "button", "aria-label": `Remove ${persona.name}`, onclick: () => remove(place) }, "Remove"))
    : null;
  return element("article", { class: `member${isChanged ? " changed" : ""}` },
    element("div", { class: "headline" }, element("h3", { dir: "auto" }, persona.name), edit),
    ...criteria);
}

function remove(place) {
  state.edited.members.splice(place, 1);
  state.editing.clear();
  drawTeam();
  byId("library").focus();
}

function editor(member, place) {
  const { persona } = member;
  const rubric = (member.rubric ??= { criteria: [], reason: "" });
  const sum = element("span", { class: "sum", "aria-live": "polite" });
  const total = () => {
    const all = rubric.criteria.reduce((added, each) => added + each.weight, 0);
    sum.textContent = Math.abs(all - 100) < 0.01 ? "weights add up to 100%" : `weights add up to ${rounded(all)}%; they will be brought to 100%`;
    updateAgain();
  };
  const field = (label, value, set, attributes = {}) => element("label", {}, label, element("input", { value, dir: "auto", oninput: (event) => { set(event.target.value); total(); }, ...attributes }));
  const rows = rubric.criteria.map((each, row) => element("div", { class: "criterion" },
    field("Criterion", each.name, (value) => { each.name = value; }),
    field("Weight %", rounded(each.weight), (value) => { each.weight = Math.max(0, Number(value) || 0); }, { type: "number", min: 0, step: "any", inputmode: "decimal" }),
    element("button", { type: "button", "aria-label": `Remove the criterion ${each.name}`, onclick: () => { rubric.criteria.splice(row, 1); drawTeam(); } }, "✕"),
    element("label", { class: "about" }, "What a passage must do", element("input", { value: each.description, dir: "auto", oninput: (event) => { each.description = event.target.value; updateAgain(); } }))));
  total();
  return element("article", { class: "member changed" },
    element("div", { class: "who-is" },
      field("Name", persona.name, (value) => { persona.name = value; }, { id: `name-${place}` }),
      field("Who that is", persona.description, (value) => { persona.description = value; })),
    ...rows,
    element("p", { class: "tools" },
      element("button", { type: "button", onclick: () => { rubric.criteria.push({ name: "", description: "", weight: 20 }); drawTeam(); } }, "Add a criterion"),
      element("button", { type: "button", onclick: () => { state.editing.delete(place); drawTeam(); } }, "Done"), sum));
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

function colour(value, top) {
  const part = top > 0 ? Math.min(1, Math.max(0, value / top)) : 0;
  return `h${Math.round(part * 10)}`;
}

const topOf = (ranking) => {
  const { scale, labels } = ranking.config;
  if (typeof scale === "number") return scale;
  if (Array.isArray(labels) && labels.length) return labels.length - 1;
  return Math.max(1, ...ranking.hits.flatMap((hit) => Object.values(hit.scores).filter((score) => score !== null)));
};

function header(personas, moved) {
  byId("heat").tHead.replaceChildren(element("tr", {},
    element("th", { scope: "col", class: "name" }, "Passage"),
    ...personas.map((name) => element("th", { scope: "col", class: "who", dir: "auto" }, name)),
    element("th", { scope: "col" }, "Score"),
    element("th", { scope: "col" }, moved)));
}

function drawLive(live) {
  header(live.personas, "Given at");
  byId("verdict").textContent = "Scores appear as they come; the order follows at the end.";
  byId("heat").tBodies[0].replaceChildren(...live.documents.map((each, place) => element("tr", { "data-id": each.id },
    element("th", { scope: "row", class: "name" }, element("span", { class: "head", dir: "auto" }, each.title || each.text)),
    ...live.personas.map((name) => element("td", { class: "cell", "data-persona": name, "data-column": name })),
    element("td", { "data-column": "Score" }), element("td", { class: "move", "data-column": "Given at" }, String(place + 1)))));
  for (const key of live.scores.keys()) fill(live, ...key.split("\n"));
}

function fill(live, persona, id) {
  const row = byId("heat").tBodies[0].querySelector(`tr[data-id="${CSS.escape(id)}"]`);
  const cell = row?.querySelector(`td[data-persona="${CSS.escape(persona)}"]`);
  if (!cell) return;
  const value = live.scores.get(`${persona}\n${id}`);
  cell.textContent = value === null ? "–" : rounded(value);
  if (value === null) return;
  live.top = Math.max(live.top ?? 10, value);
  cell.className = `cell ${colour(value, live.top)}`;
}

// nDCG@10 with linear gains, as in the reports.
function ndcg(ids) {
  const { grades } = state;
  if (!grades) return null;
  const gain = (values) => values.slice(0, 10).reduce((sum, grade, place) => sum + Math.max(0, grade) / Math.log2(place + 2), 0);
  const best = gain(Object.values(grades).sort((a, b) => b - a));
  return best > 0 ? gain(ids.map((id) => grades[id] ?? 0)) / best : null;
}

function verdict(now, before) {
  const said = [...now.notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`)];
  const { hits } = now.ranking;
  const ids = hits.map((hit) => hit.doc_id);
  const measured = ndcg(ids);
  if (measured !== null) {
    const given = ndcg([...hits].sort((a, b) => a.first_stage_rank - b.first_stage_rank).map((hit) => hit.doc_id));
    const last = before ? `, ${ndcg(before.ranking.hits.map((hit) => hit.doc_id)).toFixed(3)} before` : "";
    said.push(`nDCG@10 is ${measured.toFixed(3)}${last}; as given ${given.toFixed(3)}.`);
  }
  if (before) {
    const moved = hits.filter((hit) => place(before, hit.doc_id) !== hit.rank);
    said.push(moved.length ? `${counted(moved.length, "passage")} moved since the last ranking.` : "Nothing moved since the last ranking.");
  }
  if (current()?.encoder) said.push("The judge compares meanings by the names of personas and criteria; weights and explanations are for models that reason.");
  else if (current()?.weak) said.push("The judge is a weak model: take the order as a look at how it works.");
  return said.join(" ");
}

const place = (made, id) => made.ranking.hits.find((hit) => hit.doc_id === id)?.rank;

function drawRanking() {
  const now = state.done.at(-1);
  if (!now) return;
  const { ranking } = now;
  const before = [...state.done.slice(0, -1)].reverse().find((each) => each.query === now.query && each.ranking.hits.length === ranking.hits.length && each.ranking.hits.every((hit) => place(now, hit.doc_id)));
  const top = topOf(ranking);
  header(ranking.personas, before ? "Moved" : "Given at");
  byId("verdict").textContent = verdict(now, before);
  drawRamp(top);
  const rows = [];
  for (const hit of ranking.hits) {
    rows.push(row(hit, ranking, before, top));
    if (state.open.has(hit.doc_id)) rows.push(details(hit, ranking, before));
  }
  byId("heat").tBodies[0].replaceChildren(...rows);
  byId("save-page").hidden = byId("save-json").hidden = false;
}

function drawRamp(top) {
  document.querySelector(".ramp").replaceChildren("0 ", ...Array.from({ length: 11 }, (_, step) => element("i", { class: `h${step}` })), ` ${rounded(top)}`);
}

function arrow(hit, before) {
  const from = before ? place(before, hit.doc_id) : hit.first_stage_rank;
  const by = from - hit.rank;
  const cell = element("td", { class: "move", "data-column": before ? "Moved" : "Given at" }, before ? "" : `${from} `);
  if (by) cell.append(element("span", { class: by > 0 ? "up" : "fell" }, `${by > 0 ? "▲" : "▼"}${Math.abs(by)}`));
  else if (before) cell.append("–");
  return cell;
}

function row(hit, ranking, before, top) {
  const isOpen = state.open.has(hit.doc_id);
  const grade = state.grades?.[hit.doc_id];
  return element("tr", { "data-id": hit.doc_id, class: hit.score === null ? "unjudged" : null },
    element("th", { scope: "row", class: "name" },
      element("button", { type: "button", "aria-expanded": String(isOpen), onclick: () => toggle(hit.doc_id) },
        element("span", { class: "rank" }, String(hit.rank)),
        element("span", { class: "what" }, element("span", { class: "head", dir: "auto" }, hit.title || hit.text),
          grade === undefined ? null : element("span", { class: `grade${grade > 0 ? " relevant" : ""}` }, grade > 0 ? "relevant" : "not relevant")))),
    ...ranking.personas.map((name) => {
      const value = hit.scores[name];
      if (value === null || value === undefined) return element("td", { class: "cell", "data-column": name, title: hit.missing[name] ?? "not asked" }, "–");
      return element("td", { class: `cell ${colour(value, top)}`, "data-column": name }, rounded(value));
    }),
    element("td", { class: "final", "data-column": "Score" }, hit.score === null ? "–" : rounded(hit.score)),
    arrow(hit, before));
}

function details(hit, ranking, before) {
  const then = before?.ranking.hits.find((each) => each.doc_id === hit.doc_id);
  const lines = ranking.personas.map((name) => {
    const now = hit.scores[name], past = then?.scores[name];
    const criteria = Object.entries(hit.criteria[name] ?? {}).map(([criterion, score]) => `${criterion} ${rounded(score)}`).join(", ");
    let said = now === null || now === undefined ? `no score: ${hit.missing[name] ?? "not asked"}` : rounded(now);
    if (typeof past === "number" && typeof now === "number" && Math.abs(past - now) >= 0.005) said += ` (${rounded(past)} before)`;
    if (then && !(name in then.scores)) said += " (new on the team)";
    return element("li", { dir: "auto" }, `${name}: ${said}${criteria ? `; ${criteria}` : ""}`);
  });
  const left = then ? before.ranking.personas.filter((name) => !ranking.personas.includes(name)).map((name) => element("li", { dir: "auto" }, `${name} is no longer there (${then.scores[name] === null ? "no score" : rounded(then.scores[name])})`)) : [];
  return element("tr", { class: "details" }, element("td", { colspan: ranking.personas.length + 3 },
    hit.title ? element("p", { dir: "auto" }, element("b", {}, hit.title)) : null,
    element("p", { dir: "auto" }, hit.text),
    element("ul", {}, ...lines, ...left)));
}

function toggle(id) {
  if (!state.open.delete(id)) state.open.add(id);
  drawRanking();
  byId("heat").querySelector(`tr[data-id="${CSS.escape(id)}"] button`)?.focus();
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
    byId("passages").value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return complain(`${file.name} is not UTF-8 text.`);
  }
  complain("");
  state.grades = null;
  byId("example").value = "";
  showCount();
}

function takeExample(number) {
  const example = state.examples[number];
  state.grades = example ? example.grades : null;
  if (!example) return;
  byId("query").value = example.query;
  byId("passages").value = example.documents.map((each) => JSON.stringify(each)).join("\n");
  showCount();
}

function describeJudge() {
  const ranker = current();
  if (!ranker) return;
  byId("judge").textContent = ranker.model ? `${ranker.ranker}, judged by ${ranker.model}${ranker.weak ? ", a weak model" : ""}` : ranker.ranker;
}

async function begin() {
  const rank_ = (team) => { if (!state.going) rank(team); };
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); rank_(null); });
  byId("cancel").addEventListener("click", () => state.going?.abort());
  byId("passages").addEventListener("input", () => { state.grades = null; byId("example").value = ""; showCount(); });
  byId("query").addEventListener("input", () => { state.grades = null; byId("example").value = ""; });
  byId("file").addEventListener("change", (event) => { readFile(event.target.files[0]); event.target.value = ""; });
  byId("example").addEventListener("change", (event) => takeExample(event.target.value));
  byId("ranker").addEventListener("change", () => { describeJudge(); drawTeam(); });
  byId("again").addEventListener("click", () => rank_(teamToSend()));
  byId("recruit").addEventListener("click", () => rank_(null));
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
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); rank_(changed() ? teamToSend() : null); }
    if (event.key === "Escape") state.going?.abort();
  });
  const drop = byId("passages");
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name !== "drop") return;
      if (event.dataTransfer.files.length) readFile(event.dataTransfer.files[0]);
      else { drop.value = event.dataTransfer.getData("text"); showCount(); }
    });
  }
  try {
    const found = await (await ask("/playground.json")).json();
    state.rankers = found.rankers;
    state.examples = found.examples;
    state.library = found.members.sort((a, b) => collator.compare(a.persona.name, b.persona.name));
  } catch (error) {
    return complain(`The page could not be set up: ${error.message}.`);
  }
  byId("ranker").replaceChildren(...state.rankers.map((each) => element("option", { value: each.name }, each.name)));
  document.querySelector(".ranker").hidden = state.rankers.length < 2;
  byId("example").append(...state.examples.map((each, number) => element("option", { value: number }, each.query)));
  document.querySelector(".example").hidden = !state.examples.length;
  byId("library").append(...state.library.map((each, number) => element("option", { value: number }, each.persona.name)));
  describeJudge();
  document.documentElement.dataset.ready = "";
}

begin();
