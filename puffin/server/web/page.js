// What the page shows is in the fragment: #table=...&column=... Nothing is ever put into the page but as text.

import { bar, history } from "/charts.js";

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

/** The answer to a GET; snapshot ids that a number cannot hold become text. */
async function get(path, parameters = {}) {
  const token = sessionStorage.getItem("token");
  const query = new URLSearchParams(parameters);
  const response = await fetch(`${path}?${query}`, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
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

const link = (table, column) => `#${new URLSearchParams(column ? { table, column } : { table })}`;

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
  if (page.unreadable.length) at("unreadable").textContent = `Not readable: ${page.unreadable.join(", ")}`;
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
  return { table: parameters.get("table"), column: parameters.get("column") };
}

let shown = 0; // a number for what was asked for last, so that an answer which comes late is dropped

async function show() {
  const { table, column } = asked();
  const mine = ++shown;
  mark();
  if (!table) {
    at("main").replaceChildren(element("p", { class: "muted" }, "Choose a table."));
    const planned = await get("/v1/plans").catch(() => ({ tables: [] })); // the list says what is wrong
    if (mine === shown && planned.tables.length) at("main").append(plansView(planned.tables));
    return;
  }
  try {
    const [stats, past] = await Promise.all([
      get("/v1/stats", { table }),
      column ? get("/v1/history", { table, column }) : null,
    ]);
    if (mine === shown) at("main").replaceChildren(...tableView(stats, past));
  } catch (error) {
    if (mine === shown) at("main").replaceChildren(element("p", { class: "problem", role: "alert" }, error.message));
  }
}

/** What plans have left out, table by table. */
function plansView(tables) {
  const head = element("tr");
  for (const [title, kind] of [["table"], ["plans", "number"], ["files read", "number"], ["by partition", "number"], ["by bounds", "number"], ["by index", "number"], ["bytes not read", "number"]]) {
    head.append(element("th", { class: kind ?? "", scope: "col" }, title));
  }
  const body = element("tbody");
  for (const table of tables) {
    const number = (value) => element("td", { class: "number" }, value);
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
  return element("section", { class: "plans" }, title, element("div", { class: "card" }, element("table", {}, element("thead", {}, head), body)));
}

function* tableView(stats, past) {
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
}

function historyView(past) {
  const card = element("section", { class: "card plot" }, element("h2", {}, `${past.column} over snapshots`));
  const dated = past.points.filter((point) => point.timestamp !== null);
  card.append(dated.length ? history(dated, (value) => short.format(value)) : element("p", { class: "muted" }, "No statistics."));
  return card;
}

function columnsView(stats, selected) {
  const most = Math.max(1, ...stats.columns.map((column) => column.upper ?? 0));
  const head = element("tr");
  for (const [title, kind, span] of [["column"], ["type"], ["distinct values (log)", "", "2"], ["95 % bounds"], ["age"], ["nulls", "number"], ["min"], ["max"]]) {
    head.append(element("th", { class: kind ?? "", scope: "col", colspan: span ?? "1" }, title));
  }
  const body = element("tbody");
  for (const column of stats.columns) body.append(columnRow(stats.table, column, most, column.column === selected));
  return element("div", { class: "card" }, element("table", {}, element("thead", {}, head), body));
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
