// Legend of the weight colours: a bar from 0 to the value that has the full colour.

import { css, weightColour } from "./colour.js";
import { h } from "./dom.js";
import { number } from "./text.js";

export function legend(most, label) {
  const bar = h("canvas", { class: "legend-bar", width: 128, height: 1, "aria-hidden": "true" });
  const paint = bar.getContext("2d");
  for (let x = 0; x < 128; x++) {
    paint.fillStyle = css(weightColour(x / 127));
    paint.fillRect(x, 0, 1, 1);
  }
  return h("p", { class: "legend" }, label ? h("span", {}, label) : null, h("span", {}, "0"), bar, h("span", {}, number(most, most < 0.1 ? 3 : 2)));
}
