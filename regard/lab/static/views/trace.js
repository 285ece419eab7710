// The view Trace: one attention layer applied to a sentence, step by step, with the formula behind every number.

import { figure } from "../kit/figure.js";
import { undoHistory } from "../kit/undo.js";
import { flow } from "./trace/flow.js";
import { linear } from "./trace/linear.js";
import { attended, Numbers } from "./trace/numbers.js";
import { IN_HEADS, PRODUCTS, scene, STEPS } from "./trace/scenes.js";
import { letters, cellFormula } from "./trace/cell.js";

export const defaults = {
  text: "The cat sat on the mat",
  heads: 2,
  d_model: 8,
  mask: "none",
  scale: true,
  temperature: 1,
  seed: 0,
  weights: "", // "random", or a layer of a shipped model; links without it are older and mean random weights
  edits: [],
  step: "project",
  head: 0,
  which: "Q",
  cell: [],
};

const ASKED = ["weights", "text", "mask", "scale", "temperature", "edits"];
const SIZES = ["heads", "d_model", "seed"]; // of random weights; a trained layer has its own
const TRAINED = ["cross-2", "cross-1", "encoder-1", "encoder-2", "language-1", "language-2", "language-3", "language-4"];
const FIRST = { weights: "cross-2", head: 2 }; // what the view shows when it opens: the head of the introduction
const MASKS = ["none", "causal", "window(keys=3)", "causal & window(keys=3)", "prefix(3)"];
const TICK = 520; // milliseconds between two cells while playing

export async function mount(root, initial, kit) {
  const { h, t, number, put } = kit;
  let state = sane(initial, kit.saved);
  let data = null;
  let now = null; // the current scene and its matrices
  let selected = null; // { key, i, j }
  let asking = null;
  let lastQuestion = "";
  let shownMask = state.mask; // the choice of a mask follows links and undo, not the learner's own typing
  let timer = null;
  let beat = 0;
  const narrow = matchMedia("(max-width: 48rem)");
  const history = undoHistory("trace", kit, { fields: [...ASKED, ...SIZES], merged: ["text", "temperature", ...SIZES] });

  // ---- controls ---------------------------------------------------------------------------------------------

  /** Discard the learner's changes to Q, K and V, which do not apply to new numbers. */
  const anew = (patch) => kit.go({ ...patch, edits: [], cell: [] });
  const own = !MASKS.includes(state.mask);
  const fields = {
    text: kit.sentenceField("/api/trace", { label: t("trace.sentence"), value: state.text, wide: false, onchange: kit.debounced((text) => anew({ text }), 120) }),
    heads: kit.numberField({ label: t("trace.heads"), value: state.heads, min: 1, max: 128, onchange: (heads) => kit.go({ heads }) }),
    d_model: kit.numberField({ label: t("trace.width"), value: state.d_model, min: 1, max: 128, onchange: (d_model) => anew({ d_model }) }),
    choice: kit.choiceField({
      label: t("trace.mask"),
      value: own ? "own" : state.mask,
      options: [...MASKS.map((mask, i) => [mask, t(`trace.masks.${i}`)]), ["own", t("trace.masks.own")]],
      onchange: (mask) => {
        const custom = mask === "own";
        fields.mask.element.hidden = !custom;
        if (custom) fields.mask.input.focus();
        else kit.go({ mask });
      },
    }),
    mask: kit.textField({ label: t("trace.mask.own"), value: state.mask, wide: false, onchange: kit.debounced((mask) => kit.go({ mask }), 250) }),
    temperature: kit.sliderField({
      label: t("trace.temperature"),
      value: state.temperature,
      min: 0.05,
      max: 20,
      log: true,
      format: (x) => number(x, 2),
      onchange: (x) => kit.go({ temperature: Math.abs(x - 1) < 0.03 ? 1 : x }),
    }),
    scale: kit.switchField({ label: t("trace.scale"), value: state.scale, onchange: (scale) => kit.go({ scale }) }),
    seed: kit.numberField({ label: t("trace.seed"), value: state.seed, min: 0, max: 4294967295, onchange: (seed) => anew({ seed }) }),
  };
  fields.mask.element.hidden = !own;
  fields.weights = kit.choiceField({
    label: t("trace.weights"),
    value: state.weights,
    options: [...TRAINED, "random"].map((name) => [name, t(`trace.weights.${name}`)]),
    onchange: (weights) => anew({ weights, head: 0 }),
  });
  const restore = h("button", { type: "button", class: "small restore", hidden: true, onclick: () => kit.go({ edits: [] }) });
  const inSettings = ["heads", "d_model", "choice", "mask", "temperature", "scale", "seed"];
  const settings = h("div", { class: "fields", id: kit.freshId("settings"), hidden: true }, inSettings.map((name) => fields[name].element));
  const more = h("button", { type: "button", class: "trace-more", "aria-expanded": "false", "aria-controls": settings.id, onclick: () => showSettings(settings.hidden) }, t("trace.settings"));
  const controls = h(
    "form",
    { class: "card trace-controls", onsubmit: (event) => event.preventDefault() },
    h("div", { class: "trace-row" }, fields.text.element, fields.weights.element, restore, more),
    settings,
  );

  function showSettings(open) {
    settings.hidden = !open;
    more.setAttribute("aria-expanded", String(open));
  }

  // ---- the flow and the player --------------------------------------------------------------------------------

  const diagram = flow((step) => go(step));
  const icon = (path) => kit.s("svg", { viewBox: "0 0 24 24", class: "icon solid", "aria-hidden": "true" }, kit.s("path", { d: path }));
  const PLAY = "M7 4.5v15l13-7.5z";
  const PAUSE = "M6 5h4v14H6zM14 5h4v14h-4z";
  const back = h("button", { type: "button", class: "icon-button", "aria-label": t("trace.back"), title: t("trace.back"), onclick: () => by(-1) }, icon("M17 4.5v15L7 12zM5 5h2v14H5z"));
  const next = h("button", { type: "button", class: "icon-button", "aria-label": t("trace.next"), title: t("trace.next"), onclick: () => by(1) }, icon("M7 4.5v15L17 12zM17 5h2v14h-2z"));
  const play = h("button", { type: "button", class: "icon-button primary play", onclick: toggle });
  const counter = h("span", { class: "counter" });
  const player = h("div", { class: "player", role: "group", "aria-label": t("trace.player") }, back, play, next, counter, history.element);
  const bar = h("section", { class: "trace-bar", "aria-label": t("trace.flow") }, diagram.element, player);

  // ---- matrices and explanation -------------------------------------------------------------------------------

  const title = h("h2", {});
  const formula = h("div", { class: "letters" });
  const explanation = h("p", { class: "explanation" });
  const aside = h("div", { class: "worked", "aria-live": "polite" });
  // With a long explanation the panel scrolls; tabindex lets the keyboard scroll it.
  const panel = h("section", { class: "card trace-panel", tabindex: 0, "aria-label": t("trace.explained") }, title, explanation, formula, aside);
  const heads = h("div", { class: "trace-heads" });
  const board = h("div", { class: "trace-board" });
  const threeWays = linear(kit, () => ({ ...question(), which: state.which }));
  const stage = h("section", { class: "card trace-stage", "aria-label": t("trace.numbers") }, heads, board, threeWays.element);
  root.append(controls, bar, h("div", { class: "trace-main" }, stage, panel));

  // ---- navigation between steps -------------------------------------------------------------------------------

  function go(step, quiet = false) {
    if (step === state.step) return;
    performance.mark("trace-step-asked");
    kit.go({ step });
    if (step === STEPS.at(-1)) kit.complete("formula");
    if (!quiet) kit.announce(`${STEPS.indexOf(step) + 1}. ${t(`trace.title.${step}`)}`);
    painted(() => performance.measure("trace-step", "trace-step-asked"));
  }

  function by(steps) {
    const to = Math.min(Math.max(STEPS.indexOf(state.step) + steps, 0), STEPS.length - 1);
    go(STEPS[to]);
  }

  function toggle() {
    if (timer) return stop();
    if (state.step === STEPS.at(-1)) go(STEPS[0]);
    beat = 0;
    timer = setInterval(tick, TICK);
    showPlayer();
    return undefined;
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    showPlayer();
  }

  /** One tick of the animation: the next cell of a row of the result, or the next step after the last cell. */
  function tick() {
    if (!now) return; // the numbers have not arrived yet
    const { values } = now.scene.matrices[now.scene.result];
    const cells = Math.min(6, values[0].length);
    if (beat < cells) {
      if (!kit.reducedMotion()) look(now.scene.result, selected?.i ?? 0, beat);
      beat++;
    } else if (state.step === STEPS.at(-1)) stop();
    else {
      beat = 0;
      go(STEPS[STEPS.indexOf(state.step) + 1]);
    }
  }

  function showPlayer() {
    put(play, icon(timer ? PAUSE : PLAY));
    play.setAttribute("aria-label", timer ? t("trace.pause") : t("trace.play"));
    play.title = timer ? t("trace.pause") : t("trace.play");
    const at = STEPS.indexOf(state.step);
    counter.textContent = t("trace.counter", { at: at + 1, of: STEPS.length });
    back.disabled = at === 0;
    next.disabled = at === STEPS.length - 1;
  }

  function keys(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable], canvas")) return;
    if (event.key === "ArrowRight") by(1);
    else if (event.key === "ArrowLeft") by(-1);
    else if (event.key === " " && !event.target.closest("button, a, summary")) toggle();
    else return;
    event.preventDefault();
  }
  addEventListener("keydown", keys);

  // ---- drawing ------------------------------------------------------------------------------------------------

  function draw() {
    const { step } = state;
    const head = Math.min(state.head, data.heads - 1);
    diagram.show(step, data);
    showPlayer();
    title.textContent = t(`trace.title.${step}`);
    explanation.textContent = explain(step);
    put(formula, letters(step, state, data));
    formula.hidden = PRODUCTS.has(step); // products show the formula between the matrices
    restore.hidden = state.edits.length === 0;
    restore.textContent = t("trace.restore", { count: state.edits.length });
    drawHeads(step, head);
    threeWays.show(step === "project");
    const described = scene(step, data, state, narrow.matches);
    const drawn = {};
    for (const [key, spec] of Object.entries(described.matrices)) {
      drawn[key] = kit.matrix({
        ...spec,
        onlook: (i, j) => {
          if (selected?.key === key && selected.i === i && selected.j === j && !selected.soft) return;
          look(key, i, j);
        },
        onedit: spec.edit && !kit.fixed ? (i, j, value) => edit(spec.edit(i, j), value) : undefined,
        onwrong: (words) => kit.toast(words, { wrong: true }),
      });
    }
    now = { scene: described, drawn };
    const { order, joints } = arranged(described);
    const parts = order.map((key) =>
      h(
        "div",
        { class: `part part-${key}`, dataset: { part: key } },
        joints[key] !== undefined ? h("span", { class: "joint", "aria-hidden": "true" }, joints[key]) : null,
        described.matrices[key].strip ? h("div", {}, cut(key, described.matrices[key].strip), drawn[key].element) : drawn[key].element,
      ),
    );
    board.className = `trace-board ${described.layout} step-${step}`;
    const across = Object.values(described.matrices).map((spec) => spec.columns.length);
    board.classList.toggle("compact", Math.max(...across) > 6 || (described.layout === "row" && across.reduce((a, b) => a + b) > 11));
    const tall = Math.max(...Object.values(described.matrices).map((spec) => spec.rows.length)) > 20;
    board.classList.toggle("tall", tall);
    put(board, parts, described.layout === "product" ? crossing(described) : null);
    first();
  }

  /** The order of the matrices. The result comes first in products, on a phone and if the matrices are high, so that it is visible without scrolling. */
  function arranged({ layout, matrices, result, joints, backwards }) {
    const keys = Object.keys(matrices);
    const few = matrices[result].rows.length <= 7;
    if (layout === "product") return { order: [result, ...keys.filter((key) => key !== result)], joints: { [result]: "", [keys[0]]: "=", [keys[1]]: "·" } };
    if (!backwards || (few && !narrow.matches)) return { order: keys, joints };
    return { order: backwards, joints: Object.fromEntries(backwards.slice(1).map((key) => [key, key in joints && joints[key] === "" ? "" : "←"])) };
  }

  /** A small picture of all of Q, K or V in which the columns of this head are marked. */
  function cut(symbol, { values, from, of }) {
    const whole = kit.thumbnail(values, { kind: "signed", most: Math.max(...values.flat().map(Math.abs)) });
    whole.style.width = "100%";
    whole.style.height = `${narrow.matches ? 24 : Math.min(72, 9 * values.length)}px`;
    const mark = h("span", { class: "strip-mark", style: { left: `${(100 * from) / of}%`, width: `${100 / of}%` } });
    return h("div", { class: "strip-whole", role: "img", "aria-label": t("trace.strip-of", { name: symbol, n: from + 1, of }) }, whole, mark);
  }

  /** Between the two factors of a product: the formula, and how a cell of the result depends on a row and a column. */
  function crossing({ matrices, result }) {
    const [a, b] = Object.values(matrices);
    const names = { a: a.name, b: b.name, c: matrices[result].name };
    return h("div", { class: "crossing" }, letters(state.step, state, data), h("p", { class: "remark" }, kit.rich(t("trace.crossing", names))));
  }

  /** Return the explanation of a step; unusual settings have their own texts. */
  function explain(step) {
    const kind = state.weights.split("-")[0];
    const facts = { width: data.width, heads: data.heads, d_k: data.d_k, root: number(Math.sqrt(data.d_k), 2) };
    if (step === "mask" && !data.visible) return t("trace.said.mask-none");
    if (step === "scale" && !state.scale) return t("trace.said.scale-off", facts);
    if (step === "project" && kind !== "random") return t(`trace.said.project-${kind}`, facts);
    if (step === "split" && data.heads === 1) return t("trace.said.split-one");
    return t(`trace.said.${step}`, facts);
  }

  let heading = null; // what the row of buttons above the matrices shows

  function drawHeads(step, head) {
    const which = step === "project" || (step === "split" && narrow.matches);
    const inHeads = IN_HEADS.has(step) && data.heads > 1;
    heads.hidden = !which && !inHeads;
    const target = `${which} ${inHeads}`;
    if (target !== heading?.target || (inHeads && heading.data !== data)) put(heads, inHeads ? headButtons() : null, which ? whichButtons() : null);
    heading = { target, data };
    for (const button of heads.querySelectorAll("button")) {
      const here = button.dataset.which ? button.dataset.which === state.which : Number(button.dataset.head) === head;
      button.setAttribute("aria-pressed", String(here));
    }
  }

  const whichButtons = () => [
    h("span", { class: "label" }, t("trace.which")),
    ["Q", "K", "V"].map((symbol) => h("button", { type: "button", class: "small", dataset: { which: symbol }, onclick: () => kit.go({ which: symbol }) }, symbol, h("span", { class: "faint" }, t(`trace.role.${symbol}`)))),
  ];

  const headButtons = () => [
    h("span", { class: "label" }, t("trace.head")),
    data.of("weights").map((weights, i) =>
      h(
        "button",
        { type: "button", class: "head", "aria-label": t("trace.head-n", { n: i + 1 }), dataset: { head: i }, onclick: () => kit.go({ head: i }) },
        kit.thumbnail(weights, { size: data.heads > 12 ? 24 : 30 }),
        h("span", {}, String(i + 1)),
      ),
    ),
  ];

  /** The cell that is explained when a step opens: the one in the link, else the one selected before, else an instructive one. */
  function first() {
    const { matrices, result } = now.scene;
    const { values } = matrices[result];
    const [i, j] = state.cell.length === 2 ? state.cell : telling();
    look(result, Math.min(Math.max(0, i), values.length - 1), Math.min(Math.max(0, j), values[0].length - 1), true);
  }

  /** The last query sees the most keys. Its second largest weight is chosen, since the largest has e⁰ = 1, which explains little. */
  function telling() {
    const i = Math.min(data.queries.length, 6) - 1;
    const weights = data.of("weights")[Math.min(state.head, data.heads - 1)];
    if (state.step === "mask" && data.visible) {
      const row = weights.findIndex((one) => one.includes(0));
      if (row >= 0) return [row, weights[row].indexOf(0)];
    }
    const order = weights[i].slice(0, 6).map((w, j) => [w, j]).sort((a, b) => b[0] - a[0]);
    return [i, (order[1] ?? order[0])[1]];
  }

  function look(key, i, j, soft = false) {
    selected = { key, i, j, soft };
    const lights = now.scene.lights(key, i, j);
    for (const [name, one] of Object.entries(now.drawn)) one.light(lights[name], soft);
    const explained = cellFormula(state.step, key, i, j, data, state, now.scene);
    put(
      aside,
      h("h3", {}, t("trace.this-cell")),
      h("div", { class: "pieces" }, explained.pieces),
      explained.products ? strip(explained.products, explained.result) : null,
      explained.pair ? h("p", { class: "remark" }, explained.seen ? t("trace.sees", explained.pair) : t("trace.blind", explained.pair)) : null,
      explained.empty ? h("p", { class: "remark" }, t("trace.empty")) : null,
      explained.row ? bars(explained.row, explained.at, explained.query) : null,
      now.scene.matrices[key].edit && !kit.fixed ? h("p", { class: "remark" }, t("trace.editable")) : null,
    );
  }

  /** The terms of a dot product, each in its colour, with plus signs between them. */
  function strip(products, result) {
    const most = Math.max(...products.map(Math.abs), 1e-12);
    const shown = products.slice(0, 16);
    return h(
      "div",
      { class: "strip", role: "img", "aria-label": t("trace.strip", { count: products.length }) },
      shown.map((x, n) => [n ? h("span", { class: "plus" }, "+") : null, chip(x, most)]),
      shown.length < products.length ? h("span", { class: "plus" }, `+ … ${products.length - shown.length}`) : null,
      h("span", { class: "plus" }, "="),
      h("strong", {}, number(result)),
    );
  }

  function chip(x, most) {
    const colour = kit.colour.signedColour(x / most);
    return h("span", { class: "chip", style: { "background-color": kit.colour.css(colour), color: kit.colour.inkOn(colour) } }, number(x, 2));
  }

  /** The weights of one query as bars, and its effective number of keys. */
  function bars(row, at, query) {
    const shown = row.map((w, j) => [w, j]);
    const top = shown.length > 12 ? [...shown].sort((a, b) => b[0] - a[0]).slice(0, 12) : shown;
    return h(
      "div",
      { class: "bars" },
      h("h3", {}, t("trace.bars", { query: data.queries[query] })),
      h(
        "ul",
        {},
        top.map(([w, j]) =>
          h(
            "li",
            { class: j === at ? "here" : "" },
            h("span", { class: "bar-name" }, data.keys[j]),
            h("span", { class: "bar" }, h("span", { style: { width: `${100 * w}%`, "background-color": kit.colour.css(kit.colour.weightColour(0.35 + 0.5 * w)) } })),
            h("span", { class: "bar-value" }, number(w)),
          ),
        ),
      ),
      h("p", { class: "remark" }, t("trace.attended", { keys: number(attended(row), 1), all: row.length })),
    );
  }

  function edit([symbol, row, column], value) {
    const rest = state.edits.filter(([a, b, c]) => a !== symbol || b !== row || c !== column);
    kit.go({ edits: [...rest, [symbol, row, column, value]], cell: selected ? [selected.i, selected.j] : [] });
  }

  // ---- requests -----------------------------------------------------------------------------------------------

  const question = () => Object.fromEntries([...ASKED, ...(state.weights === "random" ? SIZES : [])].map((name) => [name, state[name]]));

  async function update(next) {
    state = sane(next, kit.saved);
    // A link written from now on says which weights it means.
    if (next.weights !== state.weights) kit.go({ weights: state.weights, head: state.head }, { quiet: true });
    history.note(state);
    const body = question();
    const asked = JSON.stringify(body);
    for (const name of ["text", "weights", "heads", "d_model", "seed", "temperature", "scale"]) fields[name].set(state[name]);
    for (const name of SIZES) fields[name].element.hidden = state.weights !== "random";
    if (state.mask !== shownMask && document.activeElement !== fields.mask.input) {
      const listed = MASKS.includes(state.mask);
      fields.choice.set(listed ? state.mask : "own");
      fields.mask.set(state.mask);
      fields.mask.element.hidden = listed;
    }
    shownMask = state.mask;
    const { choice, ...limited } = fields;
    kit.limitToPrepared({ ...limited, mask: choice }, "/api/trace", body);
    if (asked === lastQuestion && data) {
      draw();
      return;
    }
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    const focusedCell = focusPlace();
    const patience = setTimeout(() => !data && put(board, slow), 300);
    try {
      const trace = await kit.api.post("/api/trace", body, { signal });
      kit.showErrorAt(fields, null);
      data = new Numbers(trace);
      lastQuestion = asked;
      draw();
      focusAgain(focusedCell);
    } catch (error) {
      if (inSettings.includes(error.field)) showSettings(true);
      kit.failed(error, fields);
    } finally {
      clearTimeout(patience);
    }
  }

  const focusPlace = () => {
    const cell = document.activeElement?.closest?.("td");
    const part = cell?.closest("[data-part]");
    return part && board.contains(part) ? [part.dataset.part, Number(cell.dataset.row), Number(cell.dataset.column)] : null;
  };

  function focusAgain(focusedCell) {
    if (focusedCell) now.drawn[focusedCell[0]]?.look(focusedCell[1], focusedCell[2], true);
  }

  const slow = h("p", { class: "waiting", role: "status" }, t("trace.waiting"));
  board.addEventListener("pointerleave", () => {
    if (selected && !board.contains(document.activeElement)) look(selected.key, selected.i, selected.j, true);
  });
  board.addEventListener("focusin", (event) => {
    const at = focusPlace();
    if (at && event.target.closest("td") && at[0] === now.scene.result) kit.go({ cell: [at[1], at[2]] }, { quiet: true });
  });

  showPlayer();
  diagram.show(state.step, null);
  const resized = () => data && draw();
  narrow.addEventListener("change", resized);
  // The first numbers of a trained layer need torch; the frame of the view is shown meanwhile.
  const numbers = update(initial);
  if (state.weights === "random" || kit.saved) await numbers;
  return {
    update,
    unmount() {
      stop();
      asking?.abort();
      history.unmount();
      narrow.removeEventListener("change", resized);
      removeEventListener("keydown", keys);
    },
    picture: () => {
      if (!data) throw new Error(t("trace.waiting"));
      return {
        title: `${STEPS.indexOf(state.step) + 1}. ${t(`trace.title.${state.step}`)}`,
        note: [state.text, data.heads > 1 && IN_HEADS.has(state.step) ? t("trace.head-n", { n: Math.min(state.head, data.heads - 1) + 1 }) : null].filter(Boolean).join(" · "),
        drawings: [figure({ matrices: Object.entries(now.scene.matrices).map(([key, spec]) => ({ ...spec, sign: now.scene.joints[key] })) })],
      };
    },
  };
}

/** Replace invalid steps, matrices, weights and heads of a link by valid ones. */
function sane(state, isSaved) {
  const plain = !isSaved && Object.keys(defaults).every((name) => JSON.stringify(state[name]) === JSON.stringify(defaults[name]));
  const known = state.weights === "random" || TRAINED.includes(state.weights);
  return {
    ...state,
    ...(known ? {} : plain ? FIRST : { weights: "random" }),
    step: STEPS.includes(state.step) ? state.step : STEPS[0],
    which: ["Q", "K", "V"].includes(state.which) ? state.which : "Q",
    head: plain && !known ? FIRST.head : Math.max(0, Math.floor(state.head)),
    cell: state.cell.length === 2 && state.cell.every(Number.isInteger) ? state.cell : [],
  };
}

/** Call a function after the next frame has been painted. */
function painted(call) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = call;
    port2.postMessage(null);
  });
}
