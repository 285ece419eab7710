// The view Your model: the attention of a trained model on the learner's text; an overview of all heads, and one head enlarged.

import { figure } from "../kit/figure.js";
import { legend } from "../kit/legend.js";
import { lines, MOST_LINED } from "../kit/lines.js";
import { decodeArray } from "../kit/arrays.js";
import { changes } from "./model/changes.js";
import { editList, factorOf, factors, predictionTable, withFactor } from "./model/edits.js";
import { findings } from "./model/findings.js";
import { headName, shown } from "./model/names.js";
import { relevance } from "./model/relevance.js";
import { statistics } from "./model/statistics.js";
import { MEASURES, overview } from "./model/overview.js";

export const defaults = {
  model: "", // empty: MiniLM if it is installed, else the translator
  text: "",
  compare: false,
  other: "",
  measure: "entropy",
  sorted: false,
  call: -1, // -1: the most informative one
  head: -1,
  cell: [],
  edits: [], // changes of the attention, as in model/edits.js
};

const EXAMPLES = {
  minilm: ["The cat sat on the mat because it was tired", "The cat sat on the mat because it was warm"],
  phrases: ["The cat sat on the mat", "The dog sat under the table"],
  dates: ["Tuesday, March 5, 2024", "21st of December 1999"],
  language: ["The function returns a list of the names that are defined in the module", "The function returns the number of the first item in the list"],
};
const ALL = Object.values(EXAMPLES).flat();
const TOP = 6;

export async function mount(root, initial, kit) {
  const { h, t, number, put } = kit;
  let state = initial;
  let models = [];
  let facts = null; // facts of the loaded model
  let data = null; // { calls, small, … } of the text; with a comparison also changes and other
  let picked = null; // { weights, visible, … } of the enlarged head, for both texts
  let maps = []; // heatmaps of the enlarged head
  let selected = null;
  let lastQuestion = "";
  let asking = false;
  let again = false;
  let closed = false;
  const ready = new Map(); // model name → facts, for models that were loaded

  // ---- controls -------------------------------------------------------------------------------------------------

  const choices = h("div", { class: "modes models", role: "group", "aria-label": t("model.models") });
  const fields = {
    text: kit.textField({ label: t("model.text"), value: "", lines: 2, onchange: kit.debounced((text) => kit.go({ text: text || " ", cell: [], edits: [] }), 450) }),
    compare: kit.switchField({ label: t("model.compare"), value: state.compare, onchange: (compare) => kit.go({ compare }) }),
    other: kit.textField({ label: t("model.other"), value: "", lines: 2, onchange: kit.debounced((other) => kit.go({ other: other || " ", cell: [] }), 450) }),
  };
  const controls = h("form", { class: "card model-controls", onsubmit: (event) => event.preventDefault() }, choices, h("div", { class: "model-texts" }, fields.text.element, fields.other.element), fields.compare.element);

  const name = () => (models.some((one) => one.name === state.model) ? state.model : (models.find((one) => one.there)?.name ?? "phrases"));
  const there = () => models.find((one) => one.name === name())?.there ?? true;
  const text = () => state.text || EXAMPLES[name()][0];
  const other = () => state.other || EXAMPLES[name()][1];

  function setFields() {
    put(
      choices,
      models.map((one) =>
        h(
          "button",
          { type: "button", dataset: { model: one.name }, "aria-pressed": String(one.name === name()), onclick: () => choose(one.name) },
          h("strong", {}, t(`model.name.${one.name}`)),
          h("span", {}, one.there ? t(`model.about.${one.name}`) : t("model.missing-short")),
        ),
      ),
    );
    if (document.activeElement !== fields.text.input) fields.text.set(text());
    if (document.activeElement !== fields.other.input) fields.other.set(other());
    fields.compare.set(state.compare);
    fields.other.element.hidden = !state.compare;
  }

  /** Switch to another model: keep the learner's own text, replace an example by the new model's example. */
  function choose(model) {
    const keep = (now) => (ALL.includes(now) || !now ? "" : now);
    const dates = model === "dates" || name() === "dates"; // this model reads dates only
    kit.go({ model, text: dates ? "" : keep(state.text), other: dates ? "" : keep(state.other), call: -1, head: -1, cell: [], edits: [] }, { push: true });
    choices.querySelector(`[data-model=${model}]`)?.focus();
  }

  // ---- elements -------------------------------------------------------------------------------------------------

  const progress = h("progress", { max: 4, "aria-label": t("model.loading") });
  const progressSaid = h("p", { role: "status" });
  const loading = h("section", { class: "card loading", hidden: true }, h("h2", {}, t("model.loading")), progress, progressSaid);
  const missing = h(
    "section",
    { class: "card missing", hidden: true, "aria-label": t("model.missing") },
    h("h2", {}, t("model.missing")),
    h("p", {}, t("model.missing-said")),
    h("pre", { tabindex: 0, "aria-label": t("model.command") }, h("code", {}, "pip install 'regard[demo]'")),
    h("p", { class: "remark" }, t("model.missing-after")),
  );

  const segment = (key, label, options, onpick) => h("div", { class: "segment", role: "group", "aria-label": label }, options.map(([id, words]) => h("button", { type: "button", class: "small", dataset: { [key]: id }, onclick: () => onpick(id) }, words)));
  const measures = segment("measure", t("model.measures"), MEASURES.map((id) => [id, t(`model.measure.${id}`)]), (measure) => kit.go({ measure }));
  const orders = segment("order", t("model.order"), [["place", t("model.by-place")], ["value", t("model.by-value")]], (order) => kit.go({ sorted: order === "value" }));
  const measureSaid = h("p", { class: "remark" });
  const legendBox = h("div", {});
  const grid = h("div", {});
  const wrote = h("p", { class: "pairing", hidden: true });
  const note = h("p", { class: "note", hidden: true });
  const overviewCard = h("section", { class: "card model-overview", "aria-label": t("model.overview") }, h("div", { class: "card-head" }, h("h2", {}, t("model.overview")), legendBox), wrote, note, h("div", { class: "segments" }, measures, orders), measureSaid, grid);
  const doctor = h("section", { class: "card model-doctor", "aria-label": t("model.doctor") });
  const changed = h("section", { class: "card model-changes", "aria-label": t("model.changes"), hidden: true });
  const predicted = h("section", { class: "card model-prediction", "aria-label": t("model.prediction"), "aria-live": "polite" });
  const side = h("div", { class: "model-side" }, predicted, changed, doctor);

  const title = h("h2", {});
  const scaleBox = h("div", {});
  const means = h("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": t("model.statistics") });
  const headFactor = h("div", { class: "edit-head" });
  const edgeFactor = h("div", { class: "edit-edge" });
  const mapBox = h("div", { class: "model-map" });
  const tool = (label, words, onclick) => h("button", { type: "button", class: "small", "aria-label": words, title: words, onclick }, label);
  const tools = h("div", { class: "tools", role: "group", "aria-label": t("model.zoom") }, tool("+", t("model.zoom-in"), () => maps.forEach((map) => map.zoom(1.6))), tool("−", t("model.zoom-out"), () => maps.forEach((map) => map.zoom(1 / 1.6))), tool(t("model.zoom-all"), t("model.zoom-all"), () => maps.forEach((map) => map.whole())), h("span", { class: "remark", id: kit.freshId("hint") }, t("model.hint")));
  const hint = tools.querySelector("[id]").id;
  const reading = h("p", { class: "reading" });
  const top = h("div", { class: "model-top" });
  const linesBox = h("div", { class: "lines-box" });
  const table = h("div", {});
  const numbers = h("details", { class: "model-numbers", ontoggle: () => drawNumbers() }, h("summary", {}, t("model.numbers")), table);
  const headCard = h("section", { class: "card model-head", "aria-label": t("model.large") }, h("div", { class: "card-head" }, title, scaleBox), means, headFactor, tools, h("div", { class: "model-columns" }, mapBox, h("div", { class: "model-read" }, reading, edgeFactor, top)), h("h3", {}, t("model.lines")), h("p", { class: "remark" }, t("model.lines-said")), linesBox, numbers);
  const body = h("div", { class: "model-body", hidden: true }, h("div", { class: "model-main" }, overviewCard, side), headCard);
  root.append(controls, loading, missing, body);

  // ---- requests -------------------------------------------------------------------------------------------------

  const question = () => JSON.stringify([name(), text(), state.compare ? other() : null, state.edits]);
  const input = () => ({ model: name(), text: text(), edits: state.edits });
  const headQuestion = () => JSON.stringify([question(), chosen()]);

  /** Send one request at a time; of the requests made meanwhile only the last one is sent. */
  async function ask() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    do {
      again = false;
      try {
        await answerOnce();
      } catch (error) {
        if (!closed) kit.failed(error, fields);
      }
    } while (again && !closed);
    asking = false;
  }

  async function answerOnce() {
    if (!there()) return;
    const model = name();
    if (!ready.has(model)) await load(model);
    if (closed || model !== name()) return void (again = true);
    facts = ready.get(model);
    const currentQuestion = question();
    if (currentQuestion !== lastQuestion) {
      const asked = { own: input(), both: { ...input(), other: other() } };
      const answer = await kit.api.post("/api/model", asked.own);
      const prediction = await kit.api.post("/api/model/prediction", asked.own);
      const against = state.compare ? await kit.api.post("/api/model/compare", asked.both) : null;
      if (closed || currentQuestion !== question()) return void (again = true);
      kit.showErrorAt(fields, null);
      lastQuestion = currentQuestion;
      data = { ...answer, prediction, small: answer.calls.map((call) => thumbnails(call.small)), compared: against, change: against && byPlace(against.changes, answer.calls) };
      picked = null;
      body.hidden = false;
      drawOverview();
    }
    const which = headQuestion();
    if (picked?.which !== which) {
      const { call, head } = chosen();
      const one = async (words) => read(await kit.api.post("/api/model/head", { ...words, call, head }));
      const both = [await one(input()), ...(state.compare ? [await one({ model, text: other() })] : [])];
      if (closed || which !== headQuestion()) return void (again = true);
      picked = { which, both };
      kit.api.retainAnswer("GET", "/api/model/models");
      kit.api.retainAnswer("POST", "/api/model/load", { model });
      kit.api.retainAnswer("POST", "/api/model", input());
      kit.api.retainAnswer("POST", "/api/model/prediction", input());
      if (state.compare) kit.api.retainAnswer("POST", "/api/model/compare", { ...input(), other: other() });
      drawHead();
    }
  }

  async function load(model) {
    const began = performance.now();
    loading.hidden = false;
    body.hidden = true;
    const onprogress = ({ status, progress: at }) => {
      progress.value = at.done ?? 0;
      const seconds = Math.round((performance.now() - began) / 1000);
      progressSaid.textContent = `${t(`model.loading.${status === "waiting" ? status : (at.doing ?? "torch")}`)} · ${t("model.seconds", { seconds })}`;
    };
    onprogress({ status: "running", progress: {} });
    try {
      ready.set(model, await kit.api.job("/api/model/load", { model }, { onprogress }));
    } finally {
      loading.hidden = true;
    }
  }

  /** The server sends square roots of the weights as integers from 0 to 255, which is precise enough for small pictures. */
  const thumbnails = (packed) => decodeArray(packed).map((rows) => kit.thumbnail(rows.map((row) => Array.from(row, (x) => (x / 255) ** 2))));
  const read = (answer) => ({ weights: decodeArray(answer.weights), visible: answer.visible && decodeArray(answer.visible), entropy: decodeArray(answer.entropy), distance: decodeArray(answer.distance), spread: decodeArray(answer.spread), sink: decodeArray(answer.sink) });

  function byPlace(rows, calls) {
    const table = calls.map((call) => call.heads.map(() => null));
    for (const row of rows) table[row.call][row.head] = row;
    return table;
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  /** The head that the learner picked; by default the one that changed most, or the most informative one. */
  function chosen() {
    const { call, head } = state;
    if (data.calls[call]?.heads[head]) return { call, head };
    const most = data.compared?.changes[0] ?? data.telling;
    return { call: most.call, head: most.head };
  }

  const pick = (call, head) => kit.go({ call, head, cell: [] });
  const tokens = (which = 0) => {
    const call = (which === 0 ? data.calls : data.compared.other.calls)[chosen().call];
    return { queries: call.queries.map(shown), keys: call.keys.map(shown) };
  };

  function drawOverview() {
    const focused = grid.contains(document.activeElement);
    const { call, head } = chosen();
    const drawn = overview({ calls: data.calls, small: data.small, measure: state.measure, sorted: state.sorted, change: data.change, chosen: { call, head }, onpick: pick });
    put(grid, drawn.element);
    put(legendBox, drawn.legend);
    if (focused) grid.querySelector("[aria-pressed=true]")?.focus();
    for (const button of measures.children) button.setAttribute("aria-pressed", String(button.dataset.measure === state.measure));
    for (const button of orders.children) button.setAttribute("aria-pressed", String((button.dataset.order === "value") === state.sorted));
    measureSaid.textContent = `${data.change ? `${t("model.change-said")} ` : ""}${t(`model.measure-said.${state.measure}`)}${data.calls.some((call) => call.labels.some((labels) => labels.length)) ? ` ${t("model.labels-said")}` : ""}`;
    wrote.hidden = !data.written;
    put(wrote, h("span", {}, text()), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), h("strong", { lang: "zh-Hans" }, data.written));
    note.hidden = data.unseen.length === 0;
    note.textContent = t("model.unseen", { pieces: data.unseen.slice(0, 8).join(", ") });
    put(doctor, h("h2", {}, t("model.doctor")), h("p", { class: "explanation" }, t("model.doctor-said")), data.compared ? [h("h3", {}, text()), findings(data, pick), h("h3", {}, other()), findings(data.compared.other, pick)] : findings(data, pick), h("p", { class: "remark model-facts" }, t("model.facts", { parameters: facts.parameters.toLocaleString(kit.language()), context: facts.context })));
    drawPrediction();
    changed.hidden = !data.compared;
    if (data.compared) put(changed, h("h2", {}, t("model.changes")), h("p", { class: "explanation" }, t("model.changes-said")), h("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": t("model.changes") }, changes(data.compared.changes, data.calls, { call, head }, pick)));
  }

  const edit = (edits) => kit.go({ edits });

  function drawPrediction() {
    const { edits } = state;
    const clear = h("button", { type: "button", class: "small", onclick: () => edit([]) }, t("model.edit.clear"));
    put(
      predicted,
      h("h2", {}, t("model.prediction")),
      edits.length ? h("p", { class: "moved-key" }, h("span", { class: "key before" }, t("model.before")), h("span", { class: "key after" }, t("model.after"))) : h("p", { class: "explanation" }, t("model.edit-said")),
      predictionTable(data.prediction, edits.length > 0),
      relevance(data.relevance),
      edits.length ? [h("h3", {}, t("model.edit.list")), editList(edits, data.calls, edit), clear] : null,
    );
  }

  /** Buttons that weight the selected head, and the selected edge. */
  function drawFactors() {
    const { call, head } = chosen();
    const choose = (label, target) => [h("span", { class: "remark" }, label), factors(label, factorOf(state.edits, target), (factor) => edit(withFactor(state.edits, target, factor)))];
    put(headFactor, choose(t("model.edit.this-head"), [call, head]));
    const usable = selected && !(picked.both[0].visible && !picked.both[0].visible[selected[0]][selected[1]]);
    put(edgeFactor, usable ? choose(t("model.edit.this-edge"), [call, head, ...selected]) : null);
  }

  function drawHead() {
    const { call, head } = chosen();
    title.textContent = headName(data.calls[call].name, head);
    selected = state.cell.length === 2 && inside(state.cell) ? state.cell : null;
    const most = Math.max(...picked.both.map((one) => one.weights.reduce((largest, row) => row.reduce((a, b) => Math.max(a, b), largest), 0)), 1e-6);
    put(scaleBox, legend(most, t("model.weight")));
    const answers = data.compared ? [data, data.compared.other] : [data];
    put(means, statistics(answers.map((one) => one.calls[call].heads[head]), [text(), other()]));
    maps = picked.both.map((one, which) => {
      const { queries, keys } = tokens(which);
      const map = kit.heatmap({
        values: one.weights,
        rows: queries,
        columns: keys,
        most,
        label: `${t("model.map", { head: title.textContent })}${picked.both.length > 1 ? ` (${which + 1})` : ""}`,
        role: "application",
        height: "auto",
        tallest: 560,
        numbers: true,
        hidden: one.visible && ((i, j) => !one.visible[i][j]),
        onlook: (i, j) => (which === 0 ? look(i, j) : glance(i, j)),
        onpick: (i, j) => which === 0 && kit.go({ cell: [i, j] }, { quiet: true }),
      });
      map.canvas.setAttribute("aria-describedby", hint);
      return map;
    });
    mapBox.classList.toggle("two", maps.length > 1);
    put(mapBox, maps.map((map, which) => (maps.length > 1 ? h("figure", {}, h("figcaption", {}, which === 0 ? text() : other()), map.element) : map.element)));
    if (selected) maps[0].mark({ cell: selected });
    drawFactors();
    drawReading();
    drawLines();
    drawNumbers();
  }

  const inside = ([i, j]) => Number.isInteger(i) && Number.isInteger(j) && i >= 0 && j >= 0 && i < picked.both[0].weights.length && j < picked.both[0].weights[0].length;

  function drawReading(which = 0, at = selected) {
    if (!at) {
      put(reading, h("span", { class: "faint" }, t("model.look")));
      put(top);
      return;
    }
    const [i, j] = at;
    const one = picked.both[which];
    const { queries, keys } = tokens(which);
    const x = one.weights[i][j];
    const hidden = one.visible && !one.visible[i][j];
    put(reading, h("span", { class: "pair" }, `${queries[i]} → ${keys[j]}`), h("strong", { class: "reading-value", dataset: { value: String(x), row: i, column: j } }, String(x)), h("span", { class: "faint" }, hidden ? t("model.hidden-pair") : t("model.exactly")));
    const best = Array.from(one.weights[i].keys()).sort((a, b) => one.weights[i][b] - one.weights[i][a]).slice(0, TOP);
    const most = one.weights[i][best[0]] || 1;
    put(
      top,
      h("h3", {}, t("model.top", { query: queries[i] })),
      h(
        "ol",
        { class: "best" },
        best.map((key) => h("li", {}, h("span", { class: "moved-name" }, keys[key]), h("span", { class: "moved-bar before" }, h("span", { class: "fill", style: { width: `${(100 * one.weights[i][key]) / most}%` } })), h("span", { class: "best-value", dataset: { value: String(one.weights[i][key]), key } }, number(one.weights[i][key], 4)))),
      ),
      h("dl", { class: "row-facts" }, MEASURES.flatMap((measure) => [h("dt", {}, t(`model.measure.${measure}`)), h("dd", { dataset: { value: String(one[measure][i]), measure } }, Number.isNaN(one[measure][i]) ? t("model.unknown") : number(one[measure][i], 3))])),
    );
  }

  function drawLines() {
    const { queries, keys } = tokens();
    if (Math.max(queries.length, keys.length) > MOST_LINED) {
      put(linesBox, h("p", { class: "remark" }, t("model.no-lines", { most: MOST_LINED })));
      return;
    }
    put(linesBox, linesNow(Math.max(280, linesBox.clientWidth || 600)));
  }

  const linesNow = (width) => lines({ ...tokens(), weights: picked.both[0].weights, width, lit: selected ? selected[0] : null, label: t("model.lines-label", { head: title.textContent }), names: { keys: t("model.keys"), queries: t("model.queries") } });

  linesBox.addEventListener("pointerover", (event) => {
    const at = event.target.dataset ?? {};
    if (at.query === undefined && at.key === undefined) return;
    const i = at.query === undefined ? (selected?.[0] ?? 0) : Number(at.query);
    const row = picked.both[0].weights[i];
    const j = at.key === undefined ? row.indexOf(Math.max(...row)) : Number(at.key);
    if (selected && selected[0] === i && selected[1] === j) return;
    maps[0].mark({ cell: [i, j] });
    look(i, j);
  });

  linesBox.addEventListener("click", (event) => {
    const { query, key } = event.target.dataset ?? {};
    if (query === undefined || key === undefined) return;
    const { call, head } = chosen();
    edit(withFactor(state.edits, [call, head, Number(query), Number(key)], 0));
  });

  function drawNumbers() {
    if (!numbers.open || !picked) return;
    const { queries, keys } = tokens();
    const { weights, visible } = picked.both[0];
    put(table, kit.matrix({ name: title.textContent, values: weights, rows: queries, columns: keys, kind: "weights", shape: `${queries.length} × ${keys.length}`, hidden: (i, j) => Boolean(visible && !visible[i][j]), onlook: (i, j) => (maps[0].mark({ cell: [i, j] }), look(i, j)) }).element);
  }

  function look(i, j) {
    if (selected && selected[0] === i && selected[1] === j) return;
    const row = selected?.[0];
    selected = [i, j];
    kit.go({ cell: selected }, { quiet: true });
    state = { ...state, cell: selected };
    drawFactors();
    drawReading();
    if (row !== i) drawLines();
  }

  const glance = (i, j) => drawReading(1, [i, j]);

  // ---- updates of the state -------------------------------------------------------------------------------------

  async function update(next) {
    state = next;
    if (!MEASURES.includes(state.measure)) state.measure = "entropy";
    setFields();
    missing.hidden = there();
    body.hidden = !there() || !data;
    if (data && there() && question() === lastQuestion) {
      drawOverview();
      if (picked?.which === headQuestion()) {
        if (JSON.stringify(selected) !== JSON.stringify(state.cell)) drawHead();
        return;
      }
    }
    ask();
  }

  const resized = kit.debounced(() => picked && !closed && drawLines(), 120);
  const watcher = new ResizeObserver(resized);
  watcher.observe(linesBox);
  setFields();
  ({ models } = await kit.api.get("/api/model/models"));
  update(state);
  return {
    update,
    unmount() {
      closed = true;
      watcher.disconnect();
    },
    /** Picture of the enlarged head: with numbers and lines if they fit, otherwise as on the page. */
    picture() {
      if (!picked) throw new Error(t("model.loading"));
      const { queries, keys } = tokens();
      const described = { title: `${t(`model.name.${name()}`)} · ${title.textContent}`, note: picked.both.map((_, which) => (which === 0 ? text() : other())).join(" / ") };
      if (Math.max(queries.length, keys.length) > 40) return { ...described, drawings: [maps[0].canvas] };
      const visible = picked.both[0].visible;
      const drawn = figure({ matrices: picked.both.map((one, which) => ({ name: which === 0 ? text() : other(), values: one.weights, rows: tokens(which).queries, columns: tokens(which).keys, kind: "weights", hidden: (i, j) => Boolean(visible && !visible[i][j]) })) });
      return { ...described, drawings: [drawn, linesNow(Math.max(drawn.viewBox.baseVal.width, 420))] };
    },
  };
}
