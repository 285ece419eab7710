// Step 3 of Start: the trained translator writes Chinese word by word; lines show what each word attends to.

import { decodeArray } from "../../kit/arrays.js";
import { lines } from "../../kit/lines.js";

const TICK = 1100; // milliseconds between two words
const EXAMPLES = ["The cat sat on the mat", "The small dog slept under the table", "Did the girl read a book?"];

export function show(root, initial, kit, story) {
  const { h, t, number, put } = kit;
  let state = initial;
  let data = null;
  let shownText = null;
  let written = kit.reducedMotion() || kit.saved ? Infinity : 0; // words that are shown
  let timer = null;
  let closed = false;

  const field = kit.sentenceField("/api/heads/cross", { label: t("start.translator.sentence"), value: state.text, onchange: kit.debounced((text) => kit.go({ text, word: 0 }), 350) });
  const chips = h("div", { class: "start-chips", role: "group", "aria-label": t("start.translator.examples") }, EXAMPLES.map((text) => h("button", { type: "button", class: "small", onclick: () => kit.go({ text, word: 0 }) }, text)));
  const waiting = h("p", { class: "waiting", role: "status", hidden: true }, t("start.translator.waiting"));
  const text = h("p", { class: "pairing" });
  const box = h("div", { class: "lines-box" });
  const reading = h("p", { class: "reading", "aria-live": "polite" });
  const again = h("button", { type: "button", class: "small", dataset: { do: "again" }, onclick: () => play(0) }, t("start.translator.again"));
  const more = h("button", { type: "button", class: "small", dataset: { do: "word" }, onclick: () => stop(Math.min(count(), written + 1)) }, t("start.translator.word"));
  const all = h("button", { type: "button", class: "small", dataset: { do: "all" }, onclick: () => stop(Infinity) }, t("start.translator.all"));
  const unseen = h("p", { class: "note", hidden: true });
  put(
    root,
    h("p", { class: "start-lead" }, t("start.translator.lead")),
    h("section", { class: "card translator-card" }, text, waiting, box, reading, h("div", { class: "tools" }, again, more, all), unseen),
    h("div", { class: "start-two" }, h("section", { class: "card translator-own" }, field.element, chips), h("p", { class: "start-moral" }, t("start.translator.moral"))),
  );

  const count = () => data?.queries.length ?? 0;
  const weights = () => data.maps[Math.min(Math.max(1, state.layer), data.maps.length) - 1][Math.min(Math.max(1, state.head), data.maps[0].length) - 1];

  function play(from) {
    stop(from);
    if (kit.reducedMotion()) return stop(Infinity);
    timer = setInterval(() => {
      written = Math.min(count(), written + 1);
      if (written >= count()) stop(Infinity);
      else draw();
    }, TICK);
    return undefined;
  }

  function stop(at) {
    clearInterval(timer);
    timer = null;
    written = at;
    draw();
  }

  const drawing = (width, upTo, lit) => {
    const svg = lines({
      queries: data.queries,
      keys: data.keys,
      weights: weights().map((row, i) => (i < upTo ? row : row.map(() => 0))),
      width,
      lit,
      label: t("start.translator.label", { source: shownText, written: data.written }),
      names: { keys: t("start.translator.read"), queries: t("start.translator.write") },
    });
    for (const word of svg.querySelectorAll("text.query")) if (Number(word.dataset.query) >= upTo) word.setAttribute("visibility", "hidden");
    return svg;
  };

  function draw() {
    if (!data) return;
    const upTo = Math.min(written, count());
    const last = upTo - 1;
    const done = upTo === count();
    put(
      text,
      h("span", {}, shownText),
      h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      h("strong", { class: "written", lang: "zh-Hans" }, done ? data.written || "∅" : data.queries.slice(0, upTo).join("") || "…"),
    );
    put(box, drawing(Math.max(280, box.clientWidth || 600), upTo, done ? null : last >= 0 ? last : null));
    more.disabled = done;
    all.disabled = done && !timer;
    const strongest = (i) => {
      const row = weights()[i];
      const j = row.indexOf(Math.max(...row));
      return { word: data.queries[i], key: data.keys[j], weight: number(row[j], 3) };
    };
    if (last < 0) put(reading, h("span", { class: "faint" }, t("start.translator.begin")));
    else if (done) put(reading, h("span", { class: "faint" }, t("start.translator.done", { layer: state.layer, head: state.head })));
    else put(reading, h("strong", {}, t("start.translator.now", strongest(last))));
    unseen.hidden = data.unseen.length === 0;
    unseen.textContent = t("start.translator.unseen", { pieces: data.unseen.slice(0, 8).join(", ") });
  }

  async function ask() {
    const wanted = state.text;
    const slow = setTimeout(() => (waiting.hidden = false), 250);
    try {
      const answer = await story.cross.lines(wanted);
      if (closed || wanted !== state.text) return;
      kit.showErrorAt({ text: field }, null);
      data = { ...answer, maps: decodeArray(answer.weights) };
      shownText = wanted;
      box.classList.remove("stale");
      if (kit.reducedMotion() || kit.saved) stop(Infinity);
      else play(0);
    } catch (error) {
      if (closed || wanted !== state.text) return;
      box.classList.add("stale");
      kit.failed(error, { text: field });
    } finally {
      clearTimeout(slow);
      if (wanted === state.text) waiting.hidden = true;
    }
  }

  const watcher = new ResizeObserver(kit.debounced(() => !closed && draw(), 120));
  watcher.observe(box);
  put(text, h("span", {}, state.text), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), h("strong", { class: "written" }, "…"));
  ask();
  return {
    update(next) {
      const changed = next.text !== state.text;
      state = next;
      if (document.activeElement !== field.input) field.set(state.text);
      if (changed) ask();
      else draw();
    },
    unmount() {
      closed = true;
      clearInterval(timer);
      watcher.disconnect();
    },
    picture: () => {
      if (!data) throw new Error(t("start.translator.waiting"));
      return { title: `${shownText} → ${data.written}`, note: t("start.title.translator"), drawings: [drawing(720, Infinity, null)] };
    },
  };
}
