// The flow diagram of the whole computation, always visible: nine steps with their shapes, the path of V past the
// scores, and the current step.

import { h } from "../../kit/dom.js";
import { m, math } from "../../kit/math.js";
import { t } from "../../kit/text.js";
import { STEPS } from "./scenes.js";

const SIGNS = {
  project: () => math("X", "W"),
  split: () => math(m.sub("Q", 1), m.o("|"), m.sub("Q", 2)),
  scores: () => math("Q", m.sup("K", m.o("⊤"))),
  scale: () => math(m.o("÷"), m.sqrt(m.sub("d", "k"))),
  mask: () => math(m.o("−∞")),
  softmax: () => math(m.text("softmax")),
  context: () => math(m.o("×"), "V"),
  merge: () => math(m.o("["), m.sub("C", 1), m.o("|"), m.sub("C", 2), m.o("]")),
  output: () => math(m.sub("W", "o")),
};

function shapes(data) {
  const L = data.queries.length;
  const pairs = [data.heads, L, data.keys.length];
  const whole = [L, data.width];
  const parts = [data.heads, L, data.d_k];
  return { project: whole, split: parts, scores: pairs, scale: pairs, mask: pairs, softmax: pairs, context: parts, merge: whole, output: whole };
}

export function flow(onpick) {
  const narrow = matchMedia("(max-width: 80rem)"); // only here can the diagram overflow and need scrolling; measuring it forces a layout
  const list = h("ol", { class: "flow" });
  const buttons = {};
  STEPS.forEach((step, i) => {
    buttons[step] = h(
      "button",
      { type: "button", class: "flow-step", dataset: { step }, onclick: () => onpick(step) },
      h("span", { class: "flow-sign", "aria-hidden": "true" }, SIGNS[step]()),
      h("span", { class: "flow-name" }, t(`trace.short.${step}`)),
      h("span", { class: "flow-shape" }),
    );
    list.append(h("li", { style: { "--column": i + 1 } }, buttons[step]));
  });
  const way = h("div", { class: "flow-way", "aria-hidden": "true" }, h("span", {}, "V"));
  const element = h("div", { class: "flow-scroll" }, h("div", { class: "flow-frame" }, list, way));
  return {
    element,
    show(step, data) {
      const sizes = data && shapes(data);
      STEPS.forEach((name, i) => {
        const button = buttons[name];
        const here = name === step;
        if (here) button.setAttribute("aria-current", "step");
        else button.removeAttribute("aria-current");
        button.classList.toggle("passed", i < STEPS.indexOf(step));
        if (sizes) button.querySelector(".flow-shape").textContent = sizes[name].join(" × ");
      });
      if (narrow.matches) {
        const [frame, node] = [element.getBoundingClientRect(), buttons[step].getBoundingClientRect()];
        element.scrollLeft += node.left + node.width / 2 - frame.left - frame.width / 2;
      }
    },
  };
}
