// Step 1 of Start: a busy street. Three things, three weights that sum to 1, and the mixture that they give.

import { FONT, label, scene } from "./street_scene.js";

const THINGS = ["car", "people", "building"];
const QUESTIONS = { cross: [0.6, 0.3, 0.1], ask: [0.05, 0.85, 0.1], where: [0.05, 0.15, 0.8] };
const VALUES = { fast: [0.9, 0.3, 0], talk: [0.1, 1, 0], place: [0, 0.2, 1] }; // what each thing tells, from 0 to 1

/** Return three weights from 0 to 1 that sum to 1; anything else becomes the first question's. */
function valid(weights) {
  const numbers = weights.length === 3 && weights.every((w) => Number.isFinite(w) && w >= 0 && w <= 1);
  return numbers && Math.abs(weights.reduce((a, b) => a + b) - 1) < 0.02 ? weights : QUESTIONS.cross;
}

export function show(root, initial, kit) {
  const { h, s, t, number, put } = kit;
  let weights = valid(initial.weights);

  const picture = h("div", { class: "street-picture" });
  const questions = Object.keys(QUESTIONS).map((name) => h("button", { type: "button", dataset: { question: name }, onclick: () => kit.go({ weights: QUESTIONS[name] }) }, t(`start.street.question.${name}`)));
  const sliders = THINGS.map((thing, i) =>
    kit.sliderField({ label: t(`start.street.${thing}`), value: weights[i], min: 0, max: 1, step: 0.01, format: (x) => number(x, 2), onchange: (x) => kit.go({ weights: moved(i, x) }) }),
  );
  const mixture = h("div", { class: "street-mixture" });
  const chosen = h("p", {});
  const sum = h("p", { class: "street-sum" });
  put(
    root,
    h("p", { class: "start-lead" }, t("start.street.lead")),
    h(
      "div",
      { class: "start-two" },
      h("div", { class: "card street-card" }, picture, h("div", { class: "street-questions", role: "group", "aria-label": t("start.street.questions") }, h("span", { class: "label" }, t("start.street.questions")), questions)),
      h(
        "div",
        { class: "start-features" },
        h("section", { class: "card" }, h("h3", {}, t("start.street.selection")), chosen),
        h("section", { class: "card" }, h("h3", {}, t("start.street.weights")), h("div", { class: "street-sliders" }, sliders.map((one) => one.element)), sum),
        h("section", { class: "card" }, h("h3", {}, t("start.street.processing")), mixture),
      ),
    ),
    h("p", { class: "start-moral" }, t("start.street.moral")),
  );

  /** Give one thing a new weight; the others share the rest in their old proportion. */
  function moved(i, x) {
    const rest = 1 - weights[i];
    return weights.map((w, n) => Number((n === i ? x : rest > 1e-6 ? (w * (1 - x)) / rest : (1 - x) / 2).toFixed(4)));
  }

  function draw() {
    put(picture, drawing(matchMedia("(max-width: 40rem)").matches ? 1.6 : 1));
    for (const button of questions) button.setAttribute("aria-pressed", String(QUESTIONS[button.dataset.question].every((w, i) => Math.abs(w - weights[i]) < 0.005)));
    sliders.forEach((one, i) => document.activeElement !== one.input && one.set(weights[i]));
    const order = THINGS.map((thing, i) => [weights[i], thing]).sort((a, b) => b[0] - a[0]);
    chosen.textContent = t("start.street.first", { first: t(`start.street.${order[0][1]}`), last: t(`start.street.${order[2][1]}`) });
    sum.textContent = `${weights.map((w) => number(w, 2)).join(" + ")} = ${number(weights.reduce((a, b) => a + b), 2)}`;
    put(
      mixture,
      Object.entries(VALUES).map(([name, values]) => {
        const mixed = values.reduce((all, v, i) => all + weights[i] * v, 0);
        return h(
          "div",
          { class: "mixed", dataset: { mixed: String(mixed) } },
          h("span", { class: "mixed-name" }, t(`start.street.value.${name}`)),
          h("span", { class: "mixed-bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * mixed}%` } })),
          h("span", { class: "mixed-sum" }, values.map((v, i) => `${number(weights[i], 2)}×${v}`).join(" + "), " = ", h("strong", {}, number(mixed, 2))),
        );
      }),
    );
  }

  const drawing = (size = 1) =>
    s(
      "svg",
      { viewBox: "0 0 640 330", width: 640, height: 330, role: "img", class: "street", "font-family": FONT, "aria-label": t("start.street.drawing", { weights: THINGS.map((thing, i) => `${t(`start.street.${thing}`)} ${number(weights[i], 2)}`).join(", ") }) },
      scene(weights),
      THINGS.map((thing, i) => label(thing, t(`start.street.${thing}`), number(weights[i], 2), size)),
    );

  draw();
  return {
    update(state) {
      weights = valid(state.weights);
      draw();
    },
    picture: () => ({ title: t("start.title.street"), note: THINGS.map((thing, i) => `${t(`start.street.${thing}`)} ${number(weights[i], 2)}`).join(" · "), drawings: [drawing()] }),
  };
}
