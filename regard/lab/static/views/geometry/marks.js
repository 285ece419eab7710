// Colours and labels of the arrows.

import { css, token, weightColour } from "../../kit/colour.js";
import { s } from "../../kit/dom.js";

/** The colour of an arrow for its share of the largest weight; the palest still stands out. */
export const colour = (share) => css(weightColour(0.35 + 0.5 * share));

/** Text with a rim of the background, so that it can be read over lines. */
export const labelled = (x, y, text, properties) =>
  s("text", { x: x.toFixed(1), y: y.toFixed(1), stroke: token("--surface"), "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round", ...properties }, text);
