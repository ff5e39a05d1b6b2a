"use strict";

// What is known: the rankers and examples of the server, the passages, the team as it was when it
// ranked and as it is edited, and the rankings that were made, the last one last, each with the
// grades and the ranker that it was made with.
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
// Fused scores are sums of fractions such as 1/61.
const rounded = (value) => String(Number(Math.abs(value) < 0.1 ? value.toPrecision(4) : value.toFixed(2)));

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
  const ranker = current();
  const body = { query, documents, ranker: ranker?.name };
  if (team) body.options = { team };
  const going = new AbortController();
  state.going = going;
  const live = { documents: documents.map((each, place) => ({ ...each, id: each._id ?? String(place) })), team, personas: [], scores: new Map() };
  const { grades } = state;
  busy(true);
  byId("status").textContent = "Sent …";
  byId("result").hidden = false;
  state.open.clear();
  drawTeam(live);
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
    finish({ id: made.id, query, ranking: made.ranking, notes: made.meta.warnings || [], grades, ranker }, (performance.now() - began) / 1000);
  } catch (error) {
    const stopped = going.signal.aborted;
    byId("status").textContent = stopped ? "Cancelled. Scores that came are kept in the ledger." : "";
    if (!stopped) complain(error instanceof TypeError ? "The server cannot be reached." : `Not ranked: ${error.message}.`.replace("..", "."));
    const last = state.done.at(-1);
    if (last?.query === query) drawRanking(); else byId("result").hidden = true;
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
      byId("verdict").textContent = "Passages are compared with one another; their ranks follow at the end.";
      status.textContent = `${data.done} of at most ${data.total} comparisons`;
      break;
  }
}

function finish(made, seconds) {
  state.done.push(made);
  const { team, usage } = made.ranking;
  state.team = team && team.members.length ? team : null;
  state.edited = state.team ? structuredClone(state.team) : null;
  state.editing.clear();
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
      element("button", { type: "button", class: "edit", "aria-label": `Edit ${persona.name}`, onclick: () => { state.editing.add(place); drawTeam(); byId(`name-${place}`).focus(); } }, "Edit"),
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
  const criteria = member.rubric?.criteria ?? [];
  const sum = element("span", { class: "sum", "aria-live": "polite" });
  const total = () => {
    const all = criteria.reduce((added, each) => added + each.weight, 0);
    if (!criteria.length) sum.textContent = "";
    else if (!all) sum.textContent = "criteria without a weight are left out";
    else sum.textContent = `weights add up to ${rounded(all)}%${Math.abs(all - 100) < 0.01 ? "" : "; they will be brought to 100%"}`;
    updateAgain();
  };
  // Buttons that are drawn anew lose the focus, which those who type would have to look for.
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
    element("label", { class: "about" }, "What a passage must do", element("input", { value: each.description, dir: "auto", oninput: (event) => { each.description = event.target.value; updateAgain(); } }))));
  const add = () => (member.rubric ??= { criteria: [], reason: "" }).criteria.push({ name: "", description: "", weight: 20 });
  total();
  return element("article", { class: "member changed" },
    element("div", { class: "who-is" },
      field("Name", persona.name, (value) => { persona.name = value; }, { id: `name-${place}` }),
      field("Who that is", persona.description, (value) => { persona.description = value; })),
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

function colour(value, top) {
  const part = top > 0 ? Math.min(1, Math.max(0, value / top)) : 0;
  return `h${Math.round(part * 10)}`;
}

const topOf = (ranking) => {
  const { top_score, scale, labels } = ranking.config;
  if (top_score) return top_score;
  if (Array.isArray(labels) && labels.length) return labels.length - 1;
  if (typeof scale === "number") return scale;
  return Math.max(1, ...ranking.hits.flatMap((hit) => Object.values(hit.scores).filter((score) => score !== null)));
};

// What the columns of a ranking say: the scores of personas; or the ranks that those gave who
// compared passages, and that members of a fusion gave, whose scores have scales of their own.
function columnsOf(ranking) {
  const { orders, members, hits } = ranking;
  if (!orders && !members) {
    const value = (hit, name) => hit.scores[name] ?? null;
    const why = (hit, name) => hit.missing[name] ?? (typeof hit.dropped === "number" ? `dropped, its relevance is ${rounded(hit.dropped)}` : "not asked");
    const top = topOf(ranking);
    return { names: ranking.personas, value, why, said: rounded, level: (score) => colour(score, top), ends: ["0", rounded(top)] };
  }
  const member = new Map((members ?? []).map((each) => [each.label, each]));
  return {
    names: orders ? Object.keys(orders) : [...member.keys()],
    value: orders ? (hit, name) => hit.ranks?.[name] ?? null : (hit, name) => member.get(name).ranks[hit.first_stage_rank - 1],
    why: (_, name) => (orders ? orders[name].left_out : member.get(name).failure) || "no rank",
    said: (rank) => `#${rank}`,
    level: (rank) => colour(hits.length - rank, hits.length - 1),
    ends: [`#${hits.length}`, "#1"],
  };
}

function header(personas, moved) {
  byId("heat").tHead.replaceChildren(element("tr", {},
    element("th", { scope: "col", class: "name" }, "Passage"),
    ...personas.map((name) => element("th", { scope: "col", class: "who", dir: "auto" }, name)),
    element("th", { scope: "col", class: "final" }, "Score"),
    element("th", { scope: "col" }, moved)));
}

function drawLive(live) {
  header(live.personas, "Given at");
  byId("verdict").textContent = "Scores appear as they come; the order follows at the end.";
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

function verdict(now, before) {
  const said = [...now.notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`)];
  const { hits } = now.ranking;
  const measured = (order) => ndcg(order.map((hit) => hit.doc_id), now.grades)?.toFixed(3);
  if (measured(hits)) {
    const given = measured([...hits].sort((a, b) => a.first_stage_rank - b.first_stage_rank));
    const last = before ? `, ${measured(before.ranking.hits)} before` : "";
    said.push(`nDCG@10 is ${measured(hits)}${last}; as given ${given}.`);
  }
  if (before) {
    const moved = hits.filter((hit) => place(before, hit.doc_id) !== hit.rank);
    said.push(moved.length ? `${counted(moved.length, "passage")} moved since the last ranking.` : "Nothing moved since the last ranking.");
  }
  return said.join(" ");
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
  header(columns.names, before ? "Moved" : "Given at");
  byId("heat").classList.toggle("unscored", ranking.hits.every((hit) => hit.score === null));
  byId("verdict").textContent = verdict(now, before);
  drawRamp(columns);
  byId("heat").tBodies[0].replaceChildren(...ranking.hits.flatMap((hit) => {
    const more = () => details(hit, columns, before);
    const made = row(hit, columns, before, now.grades, more);
    return state.open.has(hit.doc_id) ? [made, more()] : [made];
  }));
  byId("save-page").hidden = byId("save-json").hidden = false;
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
  const grade = grades?.[hit.doc_id];
  return element("tr", { "data-id": hit.doc_id, class: hit.score === null ? "unjudged" : null },
    element("th", { scope: "row", class: "name" },
      element("button", { type: "button", "aria-expanded": String(isOpen), onclick: (event) => toggle(event.currentTarget, hit.doc_id, more) },
        element("span", { class: "rank" }, String(hit.rank)),
        element("span", { class: "what" }, element("span", { class: "head", dir: "auto" }, hit.title || hit.text),
          grade === undefined ? null : element("span", { class: `grade${grade > 0 ? " relevant" : ""}` }, grade > 0 ? "relevant" : "not relevant")))),
    ...columns.names.map((name) => {
      const value = columns.value(hit, name);
      if (value === null) return element("td", { class: "cell", "data-column": name, title: columns.why(hit, name) }, "–");
      return element("td", { class: `cell ${columns.level(value)}`, "data-column": name }, columns.said(value));
    }),
    element("td", { class: "final", "data-column": "Score" }, hit.score === null ? "–" : rounded(hit.score)),
    arrow(hit, before));
}

function details(hit, columns, before) {
  const then = before && find(before, hit.doc_id), past = before && columnsOf(before.ranking);
  const said = (of, at, name) => (of.value(at, name) === null ? "–" : of.said(of.value(at, name)));
  const lines = columns.names.map((name) => {
    const criteria = Object.entries(hit.criteria[name] ?? {}).map(([criterion, score]) => `${criterion} ${rounded(score)}`);
    let line = columns.value(hit, name) === null ? `no score: ${columns.why(hit, name)}` : said(columns, hit, name);
    if (then && !past.names.includes(name)) line += " (new)";
    else if (then && said(past, then, name) !== said(columns, hit, name)) line += ` (${said(past, then, name)} before)`;
    return element("li", { dir: "auto" }, `${name}: ${[line, ...(criteria.length ? [criteria.join(", ")] : [])].join("; ")}`);
  });
  const left = then ? past.names.filter((name) => !columns.names.includes(name)).map((name) => element("li", { dir: "auto" }, `${name} is no longer there (${said(past, then, name)})`)) : [];
  return element("tr", { class: "details" }, element("td", { colspan: columns.names.length + 3 },
    hit.title ? element("p", { dir: "auto" }, element("b", {}, hit.title)) : null,
    element("p", { dir: "auto" }, hit.text),
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
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); rank_(changed() && mayEdit() ? teamToSend() : null); }
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
