// The view Start: five minutes from intuition to the formula, in six steps with live numbers.
// Each step is a module in start/ with show(root, state, kit, story) → { update(state), unmount(), picture() }.

import { show as street } from "./start/street.js";
import { show as reading } from "./start/reading.js";
import { show as translator } from "./start/translator.js";
import { show as formula } from "./start/formula.js";
import { show as row } from "./start/row.js";
import { show as onward } from "./start/onward.js";

export const defaults = {
  step: "street",
  weights: [0.6, 0.3, 0.1], // of the red car, the pedestrians and the building
  question: "", // the learner's own question to the page
  asked: 0, // or one of the prepared questions
  text: "The cat sat on the mat",
  word: 0,
  layer: 2,
  head: 3, // a head that is sure of most words and divided on 在
  drill: "",
  answers: {},
};

const STEPS = { street, reading, translator, formula, row, onward };
const NAMES = Object.keys(STEPS);

export async function mount(root, initial, kit) {
  const { h, t, put } = kit;
  let state = initial;
  let open = { step: null, part: null };

  const story = { cross: requests(kit), go: (step) => go(step) };
  const place = h("section", { class: "start-step" });
  const back = h("button", { type: "button", class: "start-back", onclick: () => by(-1) }, t("start.back"));
  const next = h("button", { type: "button", class: "primary start-next", onclick: () => by(1) });
  const dots = NAMES.map((step, i) => h("button", { type: "button", class: "quiet start-dot", dataset: { step }, title: t(`start.title.${step}`), onclick: () => go(step) }, h("span", { class: "start-number", "aria-hidden": "true" }, String(i + 1)), h("span", { class: "start-name" }, t(`start.short.${step}`))));
  const bar = h("nav", { class: "start-bar", "aria-label": t("start.steps") }, back, h("div", { class: "start-dots" }, dots), next);
  put(root, place, bar);

  const shownStep = () => (NAMES.includes(state.step) ? state.step : NAMES[0]);

  function go(step) {
    if (step === shownStep()) return;
    kit.go({ step }, { push: true });
    kit.announce(t(`start.title.${step}`));
    place.querySelector("h2").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  }

  function by(steps) {
    const to = NAMES[NAMES.indexOf(shownStep()) + steps];
    if (to) go(to);
  }

  function keys(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable], canvas")) return;
    if (event.key === "ArrowRight") by(1);
    else if (event.key === "ArrowLeft") by(-1);
    else return;
    event.preventDefault();
  }
  addEventListener("keydown", keys);

  function drawBar(step) {
    const at = NAMES.indexOf(step);
    back.disabled = at === 0;
    next.hidden = at === NAMES.length - 1;
    if (!next.hidden) put(next, h("span", { class: "start-next-word" }, t("start.next")), h("span", { class: "start-next-name" }, t(`start.short.${NAMES[at + 1]}`)), h("span", { "aria-hidden": "true" }, "→"));
    dots.forEach((dot, i) => {
      dot.classList.toggle("passed", i < at);
      if (i === at) dot.setAttribute("aria-current", "step");
      else dot.removeAttribute("aria-current");
    });
  }

  async function update(next) {
    state = next;
    const step = shownStep();
    if (open.step === step) {
      await open.part?.update?.(state);
      return;
    }
    open.part?.unmount?.();
    root.dataset.step = step;
    const body = h("div", { class: `start-body start-${step}` });
    put(place, h("h2", { tabindex: -1 }, t(`start.title.${step}`)), body);
    drawBar(step);
    open = { step, part: null };
    open.part = STEPS[step](body, state, kit, story);
    if (step === "reading") story.cross.warm(state.text); // so that the translator is loaded when its step opens
    if (step === "onward") kit.complete("intuition");
  }

  await update(state);
  return {
    update,
    unmount() {
      open.part?.unmount?.();
      removeEventListener("keydown", keys);
    },
    get picture() {
      return open.part?.picture;
    },
  };
}

/** Answers about the translator, each asked once: its attention on a sentence, and the trace of one of its layers. */
function requests(kit) {
  const answers = new Map();
  const ask = (path, body) => {
    const key = path + JSON.stringify(body);
    if (!answers.has(key)) {
      const answer = kit.api.post(path, body);
      answers.set(key, answer);
      answer.catch(() => answers.delete(key));
    }
    return answers.get(key);
  };
  const lines = (text) => ask("/api/heads/cross", { model: "phrases", text, off: [] });
  return {
    lines,
    layer: (text, layer) => ask("/api/trace", { weights: `cross-${layer}`, text, mask: "none", scale: true, temperature: 1, edits: [] }), // as Trace asks
    warm: (text) => !kit.saved && lines(text).catch(() => {}),
  };
}
