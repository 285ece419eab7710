// What a recording reports: findings of the doctor, modules that were not seen, statistics of the heads, batch items.

const MEASURES = ["entropy", "distance", "spread", "first key", "no key", "empty rows"]; // in the order of the numbers
const MOST_FINDINGS = 5; // shown at first

const statisticsOf = (index, run) => facts.report.statistics[storedAt(index, run)];
const digits = (x) => `${x <= -0.005 ? "−" : ""}${Math.abs(x).toFixed(2)}`;
const written = (x) => (x === null ? "unknown" : typeof x === "string" ? x : digits(x));
const change = (a, b) => (typeof a === "number" && typeof b === "number" ? `${b - a >= 0.005 ? "+" : ""}${digits(b - a)}` : "unknown");

/** The statistics of the shown head; of two runs also their difference. */
function showStatistics(index) {
  if (!facts.report) return;
  const rows = maps.map((_, run) => [runs > 1 ? RUNS[run] : "mean", statisticsOf(index, run).map(written)]);
  if (runs > 1) rows.push(["change", statisticsOf(index, 0).map((x, i) => change(x, statisticsOf(index, 1)[i]))]);
  const cells = rows.map(([name, numbers]) => make("tr", {}, make("th", { scope: "row" }, name), ...numbers.map((text) => make("td", {}, text))));
  element("statistics").replaceChildren(make("table", { "aria-label": `Statistics of ${titleOf(index)}` }, make("thead", {}, make("tr", {}, make("td"), ...MEASURES.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...cells)));
}

/** The head that is shown first: of two runs the one whose entropy and weight on the first key change most. */
function firstHead() {
  if (runs < 2) return 0;
  const changes = heads.map((_, index) => [0, 3].reduce((sum, at) => sum + (Math.abs(statisticsOf(index, 1)[at] - statisticsOf(index, 0)[at]) || 0), 0));
  return changes.indexOf(Math.max(...changes));
}

let sorted = -1; // column of the table by which it is sorted; -1: by layer

/** The statistics of all heads as a table; a click on a column sorts by it, of two runs by the change. */
function showTable() {
  const size = (index) => {
    const [a, b] = maps.map((_, run) => statisticsOf(index, run)[sorted]);
    const x = runs > 1 ? Math.abs(b - a) : a;
    return typeof a === "number" && Number.isFinite(x) ? x : -Infinity;
  };
  const order = heads.map((_, index) => index);
  if (sorted >= 0) order.sort((a, b) => size(b) - size(a) || a - b);
  const button = (text, action) => {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", action);
    return made;
  };
  const column = (name, at) => make("th", { scope: "col", ...(sorted === at ? { "aria-sort": at < 0 ? "ascending" : "descending" } : {}) }, button(name, () => sortBy(at)));
  const cell = (index, at) => make("td", {}, maps.map((_, run) => written(statisticsOf(index, run)[at])).join(" → "));
  const row = (index) => make("tr", {}, make("th", { scope: "row" }, button(titleOf(index), () => choose(index))), ...MEASURES.map((_, at) => cell(index, at)));
  element("table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, column("head", -1), ...MEASURES.map(column))), make("tbody", {}, ...order.map(row))));
}

function sortBy(at) {
  sorted = at;
  showTable();
  element("table").querySelector("[aria-sort] button").focus();
}

/** The findings of a run, what was checked, and what was not seen. */
function checksOf({ findings, checked, not_checked, remarks }, run) {
  const finding = ({ what, message, layer, head, item, cell }) => {
    const index = heads.findIndex((about) => about.layer === layer && about.head === (head ?? 0));
    const where = make("button", { type: "button" }, index < 0 ? "the model" : head === null ? facts.layers[layer].name : titleOf(index));
    where.disabled = index < 0;
    where.addEventListener("click", () => showExample(index, item, cell, run));
    return make("li", {}, where, make("span", {}, make("strong", {}, what), `: ${message}`));
  };
  const parts = [];
  if (runs > 1) parts.push(make("h3", {}, RUNS[run]));
  if (findings.length === 0) parts.push(make("p", { class: "well" }, "The doctor found nothing wrong."));
  else parts.push(make("ul", { class: "findings" }, ...findings.slice(0, MOST_FINDINGS).map(finding)));
  const more = findings.slice(MOST_FINDINGS);
  if (more.length) parts.push(make("details", {}, make("summary", {}, `${more.length} more finding${more.length > 1 ? "s" : ""}`), make("ul", { class: "findings" }, ...more.map(finding))));
  if (remarks.length) parts.push(make("ul", { class: "remarks" }, ...remarks.map((text) => make("li", {}, text))));
  const lines = [...(checked.length ? [`checked: ${checked.join(", ")}`] : []), ...not_checked];
  if (lines.length) parts.push(make("details", {}, make("summary", {}, "What was checked"), make("ul", { class: "hint" }, ...lines.map((text) => make("li", {}, text)))));
  return make("div", {}, ...parts);
}

/** Show the head of a finding, with the batch item and the cell that the finding names. */
async function showExample(index, number, cell, run) {
  if (items.includes(number)) await chooseItem(items.indexOf(number));
  await choose(index);
  if (cell && (number === null || items[item] === number)) {
    maps[run].mark({ cell });
    showValue(run);
  }
  element("one").scrollIntoView({ block: "nearest" });
}

function chooseItem(place) {
  item = place;
  element("item").value = place;
  drawThumbs();
  if (element("all").querySelector("details").open) showTable();
  return show(chosen);
}

function layOutReport() {
  if (!facts.report) return;
  for (const id of ["report", "statistics", "all"]) element(id).hidden = false;
  for (const id of ["second", "caption"]) element(id).hidden = runs < 2;
  root.dataset.runs = runs;
  element("checks").replaceChildren(...facts.report.runs.map(checksOf));
  const details = element("all").querySelector("details");
  details.addEventListener("toggle", () => details.open && showTable());
  element("item-field").hidden = facts.report.of < 2;
  element("item").append(...items.map((number, place) => make("option", { value: place }, String(number))));
  element("item-count").textContent = `of ${facts.report.of}`;
  element("item").addEventListener("change", () => chooseItem(Number(element("item").value)));
}

begin();
