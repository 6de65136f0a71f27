// What the page shows is in the fragment: #table=...&column=... Nothing is ever put into the page but as text.

import { bar, histogram, history } from "/charts.js";

const at = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
let following = null; // where the next page of the list begins

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const get = (path, parameters = {}) => ask(`${path}?${new URLSearchParams(parameters)}`);
const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) }, { "Content-Type": "application/json" });

/** The answer to a request; snapshot ids that a number cannot hold become text. */
async function ask(path, request = {}, headers = {}) {
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...request, headers });
  const document = JSON.parse(await response.text(), (_, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && Number.isInteger(value) ? (context?.source ?? value) : value,
  );
  if (response.status === 401) at("token").hidden = false;
  if (!response.ok) throw new Error(document.detail ?? document.title);
  return document;
}

function chip(behind, isShort = false) {
  if (behind === null) return element("span", { class: "chip old" }, isShort ? "unknown" : "of unknown age");
  if (behind === 0) return element("span", { class: "chip good" }, "current");
  const snapshots = isShort ? "" : ` snapshot${behind === 1 ? "" : "s"}`;
  return element("span", { class: "chip old" }, `${count.format(behind)}${snapshots} behind`);
}

const link = (table, column, join, on) => {
  const asked = { table, column, join, on };
  return `#${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`;
};

/** A table's own name, and the namespace or directory that it is in. */
function placed(table) {
  const whole = table.replace(/\/+$/, "");
  const cut = whole.lastIndexOf(whole.includes("/") ? "/" : ".");
  return [whole.slice(cut + 1), whole.slice(0, Math.max(cut, 0))];
}

let listing = 0; // a number for the list that was asked for last

/** Adds the next page of the tables whose names contain what was typed. */
async function list() {
  const mine = listing;
  const part = at("name").value.trim();
  const page = await get("/v1/tables", { ...(part && { contains: part }), ...(following && { after: following }) });
  if (mine !== listing) return;
  for (const table of page.tables) {
    const [name, namespace] = placed(table.table);
    const entry = element("a", { href: link(table.table), title: table.table }, name, " ", chip(table["snapshots-behind"]));
    if (namespace) entry.append(element("small", {}, namespace));
    at("tables").append(element("li", {}, entry));
  }
  const notes = page.truncated ? ["There are more tables than are listed here."] : [];
  if (page.unreadable.length) notes.push(`Not readable: ${page.unreadable.join(", ")}`);
  if (notes.length) at("unreadable").textContent = notes.join(" ");
  if (!at("tables").children.length && !page.next) at("unreadable").textContent ||= part ? "No such table has statistics." : "No table has statistics yet.";
  following = page.next;
  at("more").hidden = !following;
  mark();
}

function mark() {
  for (const name of at("tables").querySelectorAll("a")) {
    const isCurrent = new URLSearchParams(name.hash.slice(1)).get("table") === asked().table;
    isCurrent ? name.setAttribute("aria-current", "page") : name.removeAttribute("aria-current");
  }
}

function asked() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(["table", "column", "join", "on"].map((key) => [key, parameters.get(key)]));
}

let shown = 0; // a number for what was asked for last, so that an answer which comes late is dropped

async function show() {
  const { table, column, join, on } = asked();
  const mine = ++shown;
  mark();
  if (!table) {
    at("main").replaceChildren(element("p", { class: "muted" }, "Looking at all tables …"));
  }
  try {
    if (!table) {
      const [health, planned] = await Promise.all([get("/v1/status"), get("/v1/plans")]);
      if (mine === shown) at("main").replaceChildren(...healthView(health.tables, health.truncated), ...(planned.tables.length ? [plansView(planned.tables)] : []));
      return;
    }
    const [stats, ...ofColumn] = await Promise.all([
      get("/v1/stats", { table }),
      ...(column ? [get("/v1/history", { table, column }), distribution(table, column)] : []),
    ]);
    if (mine !== shown) return;
    at("main").replaceChildren(...tableView(stats, ...ofColumn));
    if (join && on) await showJoin({ left: { table, column }, right: { table: join, column: on } });
  } catch (error) {
    if (mine === shown) at("main").replaceChildren(element("p", { class: "problem", role: "alert" }, error.message));
  }
}

/** A table with these columns, each a title and perhaps a class, in a card. */
function tableOf(columns, body) {
  const head = element("tr");
  for (const [title, kind, span] of columns) head.append(element("th", { class: kind ?? "", scope: "col", colspan: span ?? "1" }, title));
  return element("div", { class: "card" }, element("table", {}, element("thead", {}, head), body));
}

const number = (value) => element("td", { class: "number" }, value);

/** How a state looks; states are the autopilot's, or follow from the health if the server has none. */
const STATES = {
  current: "good", fresh: "good", never: "good", stale: "old", due: "old", waiting: "old", held: "bad", missing: "bad", broken: "bad",
};

function stateOf(table) {
  if (table.error !== null) return "broken";
  if (table.state !== null) return table.state;
  if (table.health === 100) return "current";
  return table["stats-snapshot-id"] === null ? "missing" : "stale";
}

/** The health of every table, those in need first. */
function* healthView(tables, isCut) {
  const counts = new Map();
  for (const table of tables) counts.set(stateOf(table), (counts.get(stateOf(table)) ?? 0) + 1);
  const about = element("p", { class: "about" }, element("span", {}, tables.length || isCut ? `${count.format(tables.length)} tables${isCut ? ", and more that are not shown" : ""}` : "There are no tables."));
  for (const [state, kind] of Object.entries(STATES)) {
    if (counts.has(state)) about.append(element("span", { class: `chip ${kind}` }, `${count.format(counts.get(state))} ${state}`));
  }
  yield element("h1", {}, "Health of all tables");
  yield about;
  if (!tables.length) return;
  const body = element("tbody"), more = element("button", {}, "more");
  const add = () => {
    const begin = body.children.length;
    body.append(...tables.slice(begin, begin + ROWS).map(healthRow));
    more.hidden = body.children.length === tables.length;
  };
  more.addEventListener("click", add);
  add();
  const columns = [["health", "number"], ["table"], ["state"], ["", "name"], ["behind", "number"], ["age", "number"], ["changed", "number"], ["to read", "number"]];
  yield element("section", { class: "plans" }, tableOf(columns, body), more);
}

const ROWS = 500; // that are added at once

function healthRow(table) {
  const [name, namespace] = placed(table.table);
  const state = stateOf(table), behind = table["snapshots-behind"], changed = table["rows-changed-share"], toRead = table["bytes-to-read"];
  const named = element("td", { class: "name" }, element("a", { href: link(table.table), title: table.table }, name));
  if (namespace) named.append(element("small", { class: "muted" }, ` ${namespace}`));
  const why = table.error ?? (state === table.state ? table["state-reason"] : null) ?? table.reason;
  const row = element("tr", {}, number(String(table.health)), named);
  row.append(
    element("td", {}, element("span", { class: `chip ${STATES[state] ?? "old"}` }, state)),
    element("td", { class: "name muted" }, why),
    number(behind === null ? "" : count.format(behind)),
    element("td", { class: "number", title: table["stats-timestamp"] ?? "" }, ageOf(table["stats-timestamp"])),
    number(changed === null ? "" : share(changed)),
    number(toRead === null ? "" : `${short.format(toRead)}B`),
  );
  return row;
}

/** The age of a time, in its largest unit. */
function ageOf(time) {
  if (time === null) return "";
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60]].find(([, size]) => seconds >= size) ?? ["s", 1];
  return `${count.format(Math.floor(seconds / size))} ${unit}`;
}

/** What plans have left out, table by table. */
function plansView(tables) {
  const body = element("tbody");
  for (const table of tables) {
    const { partition, bounds, index } = table.pruned;
    const total = table["files-total"];
    const row = element("tr", {}, element("td", { class: "name" }, element("a", { href: link(table.table) }, table.table)));
    row.append(
      number(count.format(table.plans)),
      number(total ? `${count.format(table["files-planned"])} of ${count.format(total)}` : "0"),
      ...[partition, bounds, index].map((pruned) => number(count.format(pruned))),
      number(`${short.format(table["bytes-not-read"])}B`),
    );
    body.append(row);
  }
  const title = element("h2", {}, "Plans since the server started");
  const pruned = ["files read", "by partition", "by bounds", "by index", "bytes not read"].map((column) => [column, "number"]);
  return element("section", { class: "plans" }, title, tableOf([["table"], ["plans", "number"], ...pruned], body));
}

function* tableView(stats, past, distribution) {
  const known = stats.columns.filter((column) => column.ndv !== null);
  const ages = known.map((column) => column["snapshots-behind"]);
  const oldest = ages.includes(null) ? null : Math.max(0, ...ages);
  yield element("h1", {}, stats.table);
  const about = element("p", { class: "about" });
  about.append(
    element("span", {}, stats.format),
    element("span", {}, stats["snapshot-id"] === null ? "no snapshot yet" : `snapshot ${stats["snapshot-id"]}`),
    known.length ? chip(oldest) : element("span", { class: "chip bad" }, "no statistics"),
    element("span", {}, `${known.length} of ${stats.columns.length} columns`),
  );
  if (known.length) {
    const dump = element("a", { href: `/v1/dump?${new URLSearchParams({ table: stats.table })}` }, "dump of the statistics file");
    dump.addEventListener("click", (event) => showDump(event, stats.table));
    about.append(dump);
  }
  yield about;
  if (past) yield historyView(past);
  yield columnsView(stats, past?.column);
  if (!distribution) return;
  yield distributionView(distribution);
  yield joinView(stats.table, distribution.column);
}

function historyView(past) {
  const card = element("section", { class: "card plot" }, element("h2", {}, `${past.column} over snapshots`));
  const dated = past.points.filter((point) => point.timestamp !== null);
  card.append(dated.length ? history(dated, (value) => short.format(value)) : element("p", { class: "muted" }, "No statistics."));
  return card;
}

/** The distribution of a column; if it cannot be read, the rest of the page is shown all the same. */
const distribution = (table, column) =>
  get("/v1/distribution", { table, column }).catch((error) => ({ column, reason: error.message }));

/** The histogram of a column, and its most frequent values. */
function distributionView(found) {
  const card = element("section", { class: "card plot" }, element("h2", {}, `Rows of ${found.column} by value`));
  if (found.reason) {
    card.append(element("p", { class: "muted" }, found.reason));
    return card;
  }
  if (found.histogram.length) card.append(histogram(found.histogram, text, (value) => short.format(value)));
  const body = element("tbody");
  for (const value of found.heavy) {
    const row = element("tr", {}, element("td", { class: "name" }, `${text(value.value)}${value.cut ? "…" : ""}`));
    const bounds = value.lower === value.upper ? "exact" : `${count.format(value.lower)} – ${count.format(value.upper)}`;
    row.append(
      element("td", { class: "number" }, count.format(value.rows)),
      element("td", { class: "number" }, share(value.rows / Math.max(found["row-count"], 1))),
      element("td", { class: "muted" }, bounds),
    );
    body.append(row);
  }
  const head = element("tr");
  for (const [title, kind] of [["most frequent values"], ["rows", "number"], ["share", "number"], ["bounds"]]) {
    head.append(element("th", { class: kind ?? "", scope: "col" }, title));
  }
  if (found.heavy.length) card.append(element("table", { class: "facts" }, element("thead", {}, head), body));
  return card;
}

/** Asks for a column to join with; the answer comes below. */
function joinView(table, column) {
  const { join, on } = asked();
  const input = (name, label, value) => element("input", { name, "aria-label": label, placeholder: label, value: value ?? "", required: "", spellcheck: "false" });
  const form = element("form", { class: "join" }, input("join", "table", join), input("on", "column", on), element("button", {}, "estimate"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = (name) => form.elements[name].value.trim();
    location.hash = link(table, column, typed("join"), typed("on"));
  });
  return element("section", { class: "card plot" }, element("h2", {}, `Join ${column} with`), form, element("p", { id: "joined" }));
}

async function showJoin(sides) {
  const mine = shown;
  const told = await post("/v1/estimate/join", sides).then(joinText, (error) => error.message);
  if (mine === shown) at("joined").textContent = told;
}

function joinText(found) {
  if (found["join-rows"] === null) return "Statistics do not tell the rows of this join.";
  const rows = `${count.format(found["join-rows"])} rows`;
  const between = (from, to) => `between ${count.format(from)} and ${count.format(to)}`;
  const bounds = found["join-lower"] === null ? "" : `, ${between(found["join-lower"], found["join-upper"])}`;
  const contained = [["containment-left", "of the left values are on the right"], ["containment-right", "of the right values on the left"]];
  const parts = contained.filter(([key]) => found[key] !== null).map(([key, said]) => `${share(found[key])} ${said}`);
  return [`${rows}${bounds}`, ...parts, ...(found.method ? [`from: ${found.method}`] : [])].join(" · ");
}

function columnsView(stats, selected) {
  const most = Math.max(1, ...stats.columns.map((column) => column.upper ?? 0));
  const body = element("tbody");
  for (const column of stats.columns) body.append(columnRow(stats.table, column, most, column.column === selected));
  return tableOf([["column"], ["type"], ["distinct values (log)", "", "2"], ["95 % bounds"], ["age"], ["nulls", "number"], ["min"], ["max"]], body);
}

function columnRow(table, column, most, isSelected) {
  const cell = (kind, ...children) => element("td", { class: kind }, ...children);
  const value = (text) => element("td", { class: "value", title: text ?? "" }, text ?? "");
  const row = element("tr", { "aria-selected": String(isSelected), tabindex: "0" });
  row.append(cell("name", column.column), cell("name muted", column.type));
  if (column.ndv === null) {
    row.append(element("td", { colspan: "7", class: "muted" }, element("span", { class: "chip bad" }, "missing"), ` ${column.reason ?? ""}`));
  } else {
    const nulls = column["null-count"], rows = column["row-count"];
    row.append(
      cell("bar", bar(column, most)),
      cell("number", count.format(column.ndv)),
      cell("muted", column.exact ? "exact" : `${short.format(column.lower)} – ${short.format(column.upper)}`),
      cell("", chip(column["snapshots-behind"], true)),
      cell("number", nulls === null ? "" : rows ? share(nulls / rows) : count.format(nulls)),
      value(text(column.min)),
      value(text(column.max)),
    );
  }
  const open = () => (location.hash = link(table, column.column));
  row.addEventListener("click", open);
  row.addEventListener("keydown", (event) => event.key === "Enter" && open());
  return row;
}

const share = (part) => (part > 0 && part < 0.001 ? "< 0.1 %" : `${count.format(Math.round(1000 * part) / 10)} %`);
const text = (value) => (value === null || value === undefined ? null : typeof value === "object" ? JSON.stringify(value) : String(value));

async function showDump(event, table) {
  if (event.ctrlKey || event.metaKey) return; // in a tab of its own, as the server sends it
  event.preventDefault();
  const view = element("pre", {}, "reading …");
  at("main").append(element("h2", {}, "Statistics file"), element("div", { class: "card" }, view));
  try {
    view.textContent = JSON.stringify(await get("/v1/dump", { table }), null, 2);
  } catch (error) {
    view.textContent = error.message;
  }
  view.scrollIntoView({ behavior: "smooth" });
}

const tell = (error) => (at("unreadable").textContent = error.message);

at("open").addEventListener("submit", (event) => {
  event.preventDefault();
  const found = at("tables").querySelectorAll("a");
  const name = at("name").value.trim();
  if (name) location.hash = found.length === 1 ? found[0].hash : link(name);
});
let typing = null;
at("name").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(restart, 200);
});
at("token").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("secret").value.trim());
  at("token").hidden = true;
  start();
});
at("more").addEventListener("click", () => list().catch(tell));
addEventListener("hashchange", show);

function restart() {
  listing++;
  following = null;
  at("unreadable").textContent = "";
  at("tables").replaceChildren();
  list().catch(tell);
}

function start() {
  show();
  restart();
}

start();
