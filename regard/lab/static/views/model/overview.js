// Overview of layers × heads: one tile per head, coloured by a measure, in layer order or sorted; arrow keys move between tiles.

import { css, inkOn, signedColour, weightColour } from "../../kit/colour.js";
import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { callName, headName } from "./names.js";

export const MEASURES = ["entropy", "distance", "spread", "sink"];

/** Map numbers to colours: from the smallest to the largest, or by sign if both signs occur. */
function scale(values, signed) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (!signed) return { colour: (x) => weightColour(0.06 + (0.88 * (x - least)) / (most - least || 1)), least, most };
  const far = Math.max(Math.abs(least), Math.abs(most), 1e-12);
  return { colour: (x) => signedColour(x / far), least: -far, most: far };
}

/** overview({ calls, small, measure, sorted, change, chosen, onpick }) → { element, legend }; `change` contains differences to show instead. */
export function overview({ calls, small, measure, sorted, change, chosen, onpick }) {
  const all = calls.flatMap((call, c) => call.heads.map((facts, head) => ({ call: c, head, name: call.name, labels: call.labels[head], value: (change ? change[c][head][measure] : facts[measure]) ?? null }))); // null: not known
  const known = all.map((one) => one.value).filter((value) => value !== null);
  const colours = scale(known.length ? known : [0], Boolean(change) || measure === "distance");
  const written = (x) => (x === null ? "?" : change && x >= 0.005 ? `+${number(x, 2)}` : number(x, 2));
  const size = (one) => (one.value === null ? -1 : Math.abs(one.value));
  const order = sorted ? [...all].sort((a, b) => size(b) - size(a) || a.call - b.call || a.head - b.head) : all;
  const buttons = [];

  const tile = (one) => {
    const unknown = one.value === null;
    const colour = colours.colour(unknown ? colours.least : one.value);
    const here = one.call === chosen.call && one.head === chosen.head;
    const button = h(
      "button",
      { type: "button", class: "cell", tabindex: here ? 0 : -1, "aria-pressed": String(here), dataset: { call: one.call, head: one.head, value: unknown ? "" : String(one.value) }, title: headName(one.name, one.head), onclick: () => onpick(one.call, one.head) },
      small[one.call][one.head],
      h("span", { class: "visually-hidden" }, `${headName(one.name, one.head)}, ${t(`model.measure.${measure}`)} ${unknown ? t("model.unknown") : ""}`),
      h("span", { class: "cell-value", "aria-hidden": unknown ? "true" : null, style: unknown ? {} : { "--fill": css(colour), "--on": inkOn(colour) } }, written(one.value)),
      one.labels.length ? h("span", { class: "cell-label" }, one.labels.map((label) => t(`model.kind.${label}`)).join(t("model.comma"))) : null,
      sorted ? h("span", { class: "cell-name", "aria-hidden": "true" }, `${one.call + 1}·${one.head + 1}`) : null,
    );
    buttons.push({ ...one, button });
    return button;
  };

  const rows = sorted
    ? [h("div", { class: "cells sorted" }, order.map(tile))]
    : calls.map((call, c) => h("div", { class: "cells-row" }, h("span", { class: "cells-name" }, callName(call.name)), h("div", { class: "cells", style: { "--heads": call.heads.length } }, order.filter((one) => one.call === c).map(tile))));
  const element = h("div", { class: "overview", role: "group", "aria-label": t("model.overview") }, rows);
  if (!buttons.some(({ button }) => button.tabIndex === 0)) buttons[0].button.tabIndex = 0;

  element.addEventListener("keydown", (event) => {
    const at = buttons.findIndex(({ button }) => button === document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const { call, head } = buttons[at];
    const inPlace = (c, n) => buttons.findIndex((one) => one.call === c && one.head === n);
    const to = {
      ArrowRight: () => at + 1,
      ArrowLeft: () => at - 1,
      ArrowDown: () => (sorted ? at + 12 : inPlace(call + 1, head)),
      ArrowUp: () => (sorted ? at - 12 : inPlace(call - 1, head)),
      Home: () => 0,
      End: () => buttons.length - 1,
    }[event.key]?.();
    if (to === undefined) return;
    event.preventDefault();
    if (!buttons[to]) return;
    buttons[at].button.tabIndex = -1;
    buttons[to].button.tabIndex = 0;
    buttons[to].button.focus();
  });

  const bar = h("canvas", { class: "legend-bar", width: 64, height: 1, "aria-hidden": "true" });
  const paint = bar.getContext("2d");
  for (let x = 0; x < 64; x++) {
    paint.fillStyle = css(colours.colour(colours.least + ((colours.most - colours.least) * x) / 63));
    paint.fillRect(x, 0, 1, 1);
  }
  const legend = h("p", { class: "legend" }, h("span", {}, written(colours.least)), bar, h("span", {}, written(colours.most)));
  return { element, legend };
}
