// Colours and labels of the arrows.

import { css, token, weightColour } from "../../kit/colour.js";
import { s } from "../../kit/dom.js";

/** The colour of an arrow by its share of the largest weight; the palest colour is still visible. */
export const colour = (share) => css(weightColour(0.35 + 0.5 * share));

/** Text with an outline in the background colour, readable over lines. */
export const labelled = (x, y, text, properties) =>
  s("text", { x: x.toFixed(1), y: y.toFixed(1), stroke: token("--surface"), "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round", ...properties }, text);

const FONT_SIZE = 14;
const wide = (text) => [...text].reduce((sum, letter) => sum + (letter > "⺀" ? 14 : 7.6), 0);

/** Names beside their points, each at the first position where it overlaps no other; earlier names have priority. */
export function placed(names, occupied, width) {
  return names.map(({ at, text, away, style }) => {
    const outward = at.x >= width / 2 ? 1 : -1;
    const length = wide(text);
    const tries = [-6, 12, -22, 28, -38, 44].flatMap((dy) => [[outward, dy], [-outward, dy]]);
    const boxes = tries.map(([side, dy]) => {
      const x = at.x + side * away;
      const left = side > 0 ? x : x - length;
      return { side, x, y: at.y + dy, left, right: left + length, top: at.y + dy - FONT_SIZE, bottom: at.y + dy + 4 };
    });
    const free = (box) => box.left > 0 && box.right < width && !occupied.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
    const box = boxes.find(free) ?? boxes[0];
    occupied.push(box);
    return labelled(box.x, box.y, text, { "font-size": FONT_SIZE, "text-anchor": box.side > 0 ? "start" : "end", ...style });
  });
}
