// The view Heads and masks: tiles of all heads, one head enlarged, a mask to paint, heads to silence, and the effect on the output.

import { figure } from "../kit/figure.js";
import { legend } from "../kit/legend.js";
import { lines, MOST_LINED } from "../kit/lines.js";
import { decodeArray } from "../kit/arrays.js";
import { undoHistory } from "../kit/undo.js";
import { outputChanges, probabilities } from "./heads/output_changes.js";
import { tiles } from "./heads/tiles.js";

export const defaults = {
  mode: "self",
  text: "The cat sat on the mat",
  date: "Tuesday, March 5, 2024",
  heads: 4,
  d_model: 16,
  seed: 7,
  mask: "none",
  painted: [], // pairs whose visibility the learner has inverted
  off: [], // silenced heads: indices, or [layer, head] of a translator
  layer: 1,
  head: 0,
  cell: [],
};

const MODES = ["self", "phrases", "dates"];
const MASKS = ["none", "causal", "padding", "window(keys=3)", "window(keys=3, ahead=1)", "causal & window(keys=2)", "dilated(keys=3, step=2)", "blocks(2)", "prefix(2)", "documents"];
const EXAMPLES = {
  phrases: ["The cat sat on the mat", "The small dog slept under the table", "Did the girl read a book?"],
  dates: ["Tuesday, March 5, 2024", "21st of December 1999", "1 Jan 2030"],
};

export async function mount(root, initial, kit) {
  const { h, t, number, put } = kit;
  let state = initial;
  let data = null; // answer for either mode: { queries, keys, maps: [layer][head][i][j], hidden(i, j), empty, … }
  let drawn = ""; // sizes for which the enlarged map and the tiles were created
  let map = null;
  let small = null;
  let selected = state.cell.length === 2 ? state.cell : null;
  let brush = null; // visibility that the current stroke gives to the pairs it touches
  let pen = matchMedia("(pointer: fine)").matches;
  let lastQuestion = "";
  let asking = false;
  let again = false;
  let closed = false;

  const own = () => state.mode === "self";
  const typed = ["text", "date", "heads", "d_model", "seed"];
  const history = undoHistory("heads", kit, { fields: ["mode", "mask", ...typed, "painted", "off"], merged: ["painted", ...typed] });
  const clear = { painted: [], cell: [] };

  // ---- controls -------------------------------------------------------------------------------------------------

  /** Return the mask of a choice; two choices depend on the number of words. */
  const maskOf = (choice) => {
    const count = data?.queries?.length ?? 6;
    if (choice === "padding") return `padding([${Math.max(1, count - 2)}])`;
    if (choice === "documents") return `documents([${Array.from({ length: count }, (_, i) => (i < count / 2 ? 0 : 1)).join(", ")}])`;
    return choice;
  };
  const choiceOf = (mask) => MASKS.find((choice) => choice === mask || (/^(padding|documents)$/.test(choice) && mask.startsWith(`${choice}([`) && mask === maskOf(choice))) ?? "own";

  const modes = h(
    "div",
    { class: "modes", role: "group", "aria-label": t("heads.modes") },
    MODES.map((mode) => h("button", { type: "button", dataset: { mode }, onclick: () => mode !== state.mode && kit.go({ mode, off: [], cell: [], head: 0, layer: 1 }, { push: true }) }, h("strong", {}, t(`heads.mode.${mode}`)), h("span", {}, t(`heads.mode-said.${mode}`)))),
  );
  const fields = {
    text: kit.textField({ label: t("heads.sentence"), value: state.text, wide: false, onchange: kit.debounced((text) => kit.go({ text, ...clear }), 150) }),
    date: kit.textField({ label: t("heads.date"), value: state.date, wide: false, onchange: kit.debounced((date) => kit.go({ date, cell: [] }), 250) }),
    heads: kit.numberField({ label: t("heads.count"), value: state.heads, min: 1, max: 16, onchange: (heads) => kit.go({ heads, off: [], head: 0 }) }),
    d_model: kit.numberField({ label: t("heads.width"), value: state.d_model, min: 1, max: 128, onchange: (d_model) => kit.go({ d_model }) }),
    seed: kit.numberField({ label: t("heads.seed"), value: state.seed, min: 0, max: 4294967295, onchange: (seed) => kit.go({ seed }) }),
    choice: kit.choiceField({
      label: t("heads.mask"),
      value: "none",
      options: [...MASKS, "own"].map((mask, i) => [mask, t(`heads.masks.${i}`)]),
      onchange: (choice) => {
        fields.mask.element.hidden = choice !== "own";
        if (choice === "own") fields.mask.input.focus();
        else kit.go({ mask: maskOf(choice), painted: [] });
      },
    }),
    mask: kit.textField({ label: t("heads.mask.own"), value: state.mask, wide: false, onchange: kit.debounced((mask) => kit.go({ mask, painted: [] }), 250) }),
  };
  const chips = h("div", { class: "chips", role: "group", "aria-label": t("heads.examples") });
  const controls = h(
    "form",
    { class: "card heads-controls", onsubmit: (event) => event.preventDefault() },
    modes,
    h("div", { class: "fields" }, Object.values(fields).map((field) => field.element)),
    chips,
  );
  const shown = { self: ["text", "heads", "d_model", "seed", "choice", "mask"], phrases: ["text"], dates: ["date"] };

  function setFields() {
    for (const button of modes.children) button.setAttribute("aria-pressed", String(button.dataset.mode === state.mode));
    for (const [name, field] of Object.entries(fields)) field.element.hidden = !shown[state.mode].includes(name);
    for (const name of ["text", "date", "heads", "d_model", "seed", "mask"]) fields[name].set(state[name]);
    fields.text.element.querySelector("label").textContent = own() ? t("heads.sentence") : t("heads.english");
    const choice = choiceOf(state.mask);
    if (choice !== "own" || fields.choice.value() !== "own") fields.choice.set(choice);
    fields.mask.element.hidden = !own() || fields.choice.value() !== "own";
    const field = state.mode === "dates" ? "date" : "text";
    put(chips, (EXAMPLES[state.mode] ?? []).map((text) => h("button", { type: "button", class: "small chip", onclick: () => kit.go({ [field]: text, cell: [] }) }, text)));
    chips.hidden = own();
    root.dataset.mode = state.mode;
  }

  // ---- elements -----------------------------------------------------------------------------------------------

  const title = h("h2", {});
  const tileBox = h("div", {});
  const mapBox = h("div", { class: "heads-map" });
  const hint = kit.freshId("hint");
  const reading = h("p", { class: "reading" });
  const tool = (key, onclick) => h("button", { type: "button", class: "small", dataset: { tool: key }, onclick }, t(`heads.tool.${key}`));
  const penButton = tool("pen", () => {
    pen = !pen;
    showTools();
    map.mark({ cell: selected ?? undefined });
  });
  const unpaint = tool("clear", () => kit.go({ painted: [] }));
  const hideRow = tool("row", () => selected && turn(data.keys.map((_, j) => [selected[0], j]), data.keys.every((_, j) => data.hidden(selected[0], j))));
  const turnRound = tool("invert", () => turn(data.queries.flatMap((_, i) => data.keys.map((_, j) => [i, j])), null));
  const hiddenCount = h("span", { class: "hidden-count", "aria-live": "polite" });
  const tools = h("div", { class: "tools", role: "group", "aria-label": t("heads.tools") }, penButton, hideRow, turnRound, unpaint, hiddenCount);
  const emptyNote = h("p", { class: "note empty-rows", role: "status" });
  const mapCard = h("section", { class: "card heads-large", "aria-label": t("heads.large") }, h("div", { class: "card-head" }, title, history.element, legend(1, t("heads.weight"))), tileBox, tools, mapBox, reading, h("p", { class: "remark", id: hint }), emptyNote);

  const movedTitle = h("h2", {});
  const movedSaid = h("p", { class: "explanation" });
  const movedKey = h("p", { class: "moved-key" });
  const moved = h("ul", { class: "moved" });
  const allOn = h("button", { type: "button", class: "small", onclick: () => kit.go({ off: [] }) }, t("heads.all-on"));
  const movedCard = h("section", { class: "card heads-moved", "aria-label": t("heads.moved") }, movedTitle, movedSaid, movedKey, moved, allOn);

  const translation = h("div", { class: "translation", "aria-live": "polite" });
  const linesTitle = h("h2", {}, t("heads.lines"));
  const linesBox = h("div", { class: "lines-box" });
  const linesCard = h("section", { class: "card heads-lines", "aria-label": t("heads.lines") }, linesTitle, translation, h("p", { class: "remark" }, t("heads.lines-said")), linesBox);

  const table = h("div", {});
  const numbers = h("details", { class: "card heads-numbers", ontoggle: () => drawNumbers() }, h("summary", {}, t("heads.numbers")), table);
  const waiting = h("p", { class: "waiting", role: "status", hidden: true });
  root.append(controls, waiting, h("div", { class: "heads-main" }, mapCard, movedCard), linesCard, numbers);

  // ---- requests -------------------------------------------------------------------------------------------------

  const question = () =>
    own()
      ? ["/api/heads", { text: state.text, d_model: state.d_model, heads: state.heads, seed: state.seed, mask: state.mask, painted: state.painted, off: state.off }]
      : ["/api/heads/cross", { model: state.mode, text: state.mode === "dates" ? state.date : state.text, off: state.off }];

  /** Send one request at a time; of the requests made meanwhile only the last one is sent. */
  async function ask() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    again = false;
    const [path, body] = question();
    const mode = state.mode;
    const slow = setTimeout(() => {
      waiting.hidden = false;
      waiting.textContent = t("heads.waiting");
    }, 400);
    try {
      const answer = await kit.api.post(path, body);
      if (closed) return;
      kit.showErrorAt(fields, null);
      if (mode === state.mode) read(answer);
      setFields();
    } catch (error) {
      if (closed) return;
      // A link may contain painted pairs or silenced heads that this sentence does not have.
      if (["painted", "off"].includes(error.field) && state.painted.length + state.off.length > 0) {
        kit.go({ painted: [], off: [] }, { quiet: true });
        state = { ...state, painted: [], off: [] };
        again = true;
      } else kit.failed(error, mode === "dates" ? { ...fields, text: fields.date, hidden: fields.text } : fields);
    } finally {
      clearTimeout(slow);
      waiting.hidden = true;
      asking = false;
      if (again && !closed) await ask();
    }
  }

  function read(answer) {
    const weights = decodeArray(answer.weights);
    if (own()) {
      // The learner may have painted more pairs since this request was sent.
      const visible = answer.ruled.map((row) => row.map(Boolean));
      for (const [i, j] of state.painted) if (visible[i]?.[j] !== undefined) visible[i][j] = !visible[i][j];
      data = { ...answer, own: true, queries: answer.tokens, keys: answer.tokens, maps: [weights], entropy: [answer.entropy], visible };
      data.hidden = (i, j) => !data.visible[i]?.[j];
    } else data = { ...answer, own: false, maps: weights, empty: [], hidden: () => false };
    drawAll();
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  const chosen = () => ({
    layer: own() ? 0 : Math.min(Math.max(0, Math.floor(state.layer)), data.maps.length - 1),
    head: Math.min(Math.max(0, Math.floor(state.head)), data.maps[0].length - 1),
  });
  const headName = (layer, head) => (data.maps.length > 1 ? t("heads.layer-head", { layer: layer + 1, head: head + 1 }) : t("heads.head-n", { n: head + 1 }));
  const now = () => data.maps[chosen().layer][chosen().head];
  const silent = (layer, head) => (own() ? state.off.includes(head) : state.off.some(([l, n]) => l === layer && n === head));
  const named = (token) => (token === " " ? "␣" : token);

  function drawAll() {
    if (selected && (selected[0] >= data.queries.length || selected[1] >= data.keys.length)) selected = null;
    const { layer, head } = chosen();
    title.textContent = headName(layer, head);
    const sizes = JSON.stringify([data.own, data.maps.length, data.maps[0].length, data.queries, data.keys, kit.language()]);
    if (sizes !== drawn) {
      drawn = sizes;
      small = tiles(data.maps.length, data.maps[0].length, {
        named: headName,
        onpick: (layer, head) => kit.go({ layer, head }),
        onswitch: (layer, head) => {
          const off = own() ? state.off.filter((n) => n !== head) : state.off.filter(([l, n]) => l !== layer || n !== head);
          if (off.length === state.off.length) off.push(own() ? head : [layer, head]);
          kit.go({ off });
        },
      });
      put(tileBox, small.element);
      map = kit.heatmap({
        values: now(),
        rows: data.queries.map(named),
        columns: data.keys.map(named),
        label: data.own ? t("heads.map-own") : t("heads.map-cross"),
        role: "application",
        height: "auto",
        tallest: 560,
        numbers: true,
        zoom: false,
        hidden: (i, j) => data.hidden(i, j),
        across: (i) => (data.own && data.visible[i] && !data.visible[i].some(Boolean) ? t("heads.sees-nothing") : null),
        tell: (i, j) => `${data.queries[i]} → ${data.keys[j]}: ${data.hidden(i, j) ? t("heads.hidden-pair") : number(now()[i][j], 4)}`,
        pen: () => data.own && pen,
        onpaint: data.own ? paint : null,
        onlook: look,
        onpick: (i, j) => kit.go({ cell: [i, j] }, { quiet: true }),
      });
      map.canvas.setAttribute("aria-describedby", hint);
      put(mapBox, map.element);
    } else map.update({ values: now() });
    map.mark({ cell: selected ?? undefined });
    small.show({ maps: data.maps, chosen: chosen(), silent, entropy: data.entropy });
    showTools();
    drawReading();
    drawMoved();
    drawLines();
    drawNumbers();
  }

  function showTools() {
    tools.hidden = !data.own;
    document.getElementById(hint).textContent = !data.own ? t("heads.hint-cross") : pen ? t("heads.hint-pen") : t("heads.hint");
    penButton.setAttribute("aria-pressed", String(pen));
    hideRow.disabled = !selected;
    unpaint.disabled = state.painted.length === 0;
    if (!data.own) {
      emptyNote.hidden = true;
      return;
    }
    hiddenCount.textContent = t("heads.hidden", { count: data.visible.flat().filter((isVisible) => !isVisible).length, all: data.queries.length ** 2 });
    emptyNote.hidden = data.empty.length === 0;
    emptyNote.textContent = t("heads.empty", { tokens: data.empty.map((i) => `“${data.queries[i]}”`).join(", ") });
  }

  function drawReading() {
    if (!selected) {
      put(reading, h("span", { class: "faint" }, t("heads.look")));
      return;
    }
    const [i, j] = selected;
    const x = now()[i][j];
    const words = data.hidden(i, j) ? (data.visible[i].some(Boolean) ? t("heads.hidden-pair") : t("heads.sees-nothing")) : t("heads.exactly");
    put(reading, h("span", { class: "pair" }, `${named(data.queries[i])} → ${named(data.keys[j])}`), h("strong", { class: "reading-value", dataset: { value: String(x), row: i, column: j } }, String(x)), h("span", { class: "faint" }, words));
  }

  function drawMoved() {
    const off = state.off.length;
    allOn.hidden = off === 0;
    if (data.own) {
      movedTitle.textContent = t("heads.moved");
      movedSaid.textContent = t("heads.moved-said");
      put(movedKey, h("span", { class: "key by-mask" }, t("heads.by-mask")), h("span", { class: "key by-heads" }, off ? t("heads.by-heads", { heads: [...state.off].sort((a, b) => a - b).map((n) => n + 1).join(", ") }) : t("heads.by-heads-none")));
      outputChanges(moved, data);
    } else {
      movedTitle.textContent = t("heads.sure");
      movedSaid.textContent = off ? t("heads.sure-said") : t("heads.sure-none");
      put(movedKey, h("span", { class: "key before" }, t("heads.before")), off ? h("span", { class: "key after" }, t("heads.after", { count: off })) : null);
      probabilities(moved, data, off > 0);
    }
  }

  function drawLines() {
    const { layer, head } = chosen();
    linesTitle.textContent = `${data.own ? t("heads.lines") : t("heads.alignment")} · ${headName(layer, head)}`;
    translation.hidden = data.own;
    if (!data.own) {
      const source = state.mode === "dates" ? state.date : state.text;
      const changed = data.rewritten !== data.written;
      put(
        translation,
        h("p", { class: "pairing" }, h("span", {}, source), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), h("strong", { class: "written", lang: "zh-Hans" }, data.written || "∅")),
        state.off.length ? h("p", { class: `rewritten${changed ? " changed" : ""}` }, changed ? t("heads.rewritten", { count: state.off.length }) : t("heads.unmoved", { count: state.off.length }), " ", changed ? h("strong", { lang: "zh-Hans" }, data.rewritten || "∅") : null) : null,
        data.unseen.length ? h("p", { class: "note" }, t("heads.unseen", { pieces: data.unseen.slice(0, 8).join(", ") })) : null,
      );
    }
    if (Math.max(data.queries.length, data.keys.length) > MOST_LINED) {
      put(linesBox, h("p", { class: "remark" }, t("heads.no-lines", { most: MOST_LINED })));
      return;
    }
    put(linesBox, linesNow(Math.max(280, linesBox.clientWidth || 600)));
  }

  const linesNow = (width) =>
    lines({
      queries: data.queries,
      keys: data.keys,
      weights: now(),
      width,
      lit: selected ? selected[0] : null,
      quiet: new Set(data.empty),
      label: t("heads.lines-label", { head: title.textContent }),
      names: data.own ? { keys: t("heads.keys"), queries: t("heads.queries") } : { keys: t("heads.read"), queries: t("heads.write") },
    });

  linesBox.addEventListener("pointerover", (event) => {
    const at = event.target.dataset ?? {};
    if (at.query === undefined && at.key === undefined) return;
    const i = at.query === undefined ? (selected?.[0] ?? 0) : Number(at.query);
    const row = now()[i];
    const j = at.key === undefined ? row.indexOf(Math.max(...row)) : Number(at.key);
    if (selected && selected[0] === i && selected[1] === j) return;
    map.mark({ cell: [i, j] });
    look(i, j);
  });

  function drawNumbers() {
    if (!numbers.open || !data) return;
    put(table, kit.matrix({ name: title.textContent, values: now(), rows: data.queries.map(named), columns: data.keys.map(named), kind: "weights", shape: `${data.queries.length} × ${data.keys.length}`, hidden: data.hidden, onlook: (i, j) => (map.mark({ cell: [i, j] }), look(i, j)) }).element);
  }

  function look(i, j) {
    if (selected && selected[0] === i && selected[1] === j) return;
    selected = [i, j];
    kit.go({ cell: selected }, { quiet: true });
    state = { ...state, cell: selected };
    hideRow.disabled = false;
    drawReading();
    drawLines();
  }

  // ---- painting -------------------------------------------------------------------------------------------------

  function paint(cells, phase) {
    if (phase === "begin") {
      brush = data.hidden(...cells[0]);
      history.seal(); // a stroke is undone as a whole
    }
    const end = phase === "end";
    for (const [i, j] of cells) data.visible[i][j] = brush;
    if (end) {
      brush = null;
      history.seal();
    } else keep();
    if (end) map.tell();
  }

  /** Make these pairs visible or hidden; null inverts each of them. */
  function turn(cells, visible) {
    history.seal();
    for (const [i, j] of cells) data.visible[i][j] = visible ?? !data.visible[i][j];
    keep();
  }

  function keep() {
    map.draw();
    const painted = [];
    data.visible.forEach((row, i) => row.forEach((isVisible, j) => Boolean(data.ruled[i][j]) !== isVisible && painted.push([i, j])));
    kit.go({ painted });
  }

  // ---- updates of the state -------------------------------------------------------------------------------------

  async function update(next) {
    state = next;
    if (!MODES.includes(state.mode)) state.mode = "self";
    const number = (n) => Number.isInteger(n) && n >= 0 && n < 16;
    state.off = state.off.filter((one) => (own() ? number(one) && one < state.heads : Array.isArray(one) && one.length === 2 && one.every(number)));
    history.note(state);
    setFields();
    selected = state.cell.length === 2 && state.cell.every((n) => Number.isInteger(n) && n >= 0) ? state.cell : null;
    const currentQuestion = JSON.stringify(question());
    if (currentQuestion === lastQuestion && data && data.own === own()) {
      drawAll();
      return;
    }
    lastQuestion = currentQuestion;
    // Do not wait: a translator must load torch and its weights first.
    if (own()) await ask();
    else ask();
  }

  const resized = kit.debounced(() => data && !closed && drawLines(), 120);
  const watcher = new ResizeObserver(resized);
  watcher.observe(linesBox);
  await update(state);
  return {
    update,
    unmount() {
      closed = true;
      history.unmount();
      watcher.disconnect();
    },
    picture,
  };

  /** Picture: all heads with their numbers if they fit, else the enlarged head; and the lines below. */
  function picture() {
    if (!data) throw new Error(t("heads.waiting"));
    const many = data.queries.length * data.keys.length * data.maps.flat().length;
    const { layer, head } = chosen();
    const one = (l, n) => ({ name: headName(l, n), values: data.maps[l][n], rows: data.queries.map(named), columns: data.keys.map(named), kind: "weights", hidden: data.hidden });
    const matrices = many <= 400 ? data.maps.flatMap((heads, l) => heads.map((_, n) => one(l, n))) : [one(layer, head)];
    const source = state.mode === "dates" ? state.date : state.text;
    const drawn = figure({ matrices });
    const lined = Math.max(data.queries.length, data.keys.length) <= MOST_LINED;
    return {
      title: data.own ? t("heads.title") : `${source} → ${data.written}`,
      note: data.own ? `${source} · ${t("heads.mask")}: ${state.mask}${state.painted.length ? " +" : ""}` : headName(layer, head),
      drawings: lined ? [drawn, linesNow(Math.max(drawn.viewBox.baseVal.width, 420))] : [drawn],
    };
  }
}
