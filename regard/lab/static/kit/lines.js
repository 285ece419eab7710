// Attention as lines between tokens: keys on one side, queries on the other; a larger weight gives a wider, stronger line.
//
// lines({ queries, keys, weights, label, width, lit, quiet, title }) → <svg>
//   weights   one row of numbers per query; weights below LEAST are not drawn
//   lit       index of the selected query; its lines are highlighted and the others are faded
//   quiet     queries whose keys are all hidden
// Keys and queries are drawn side by side if the names fit, otherwise one above the other (phones, long texts).

import { css, token, weightColour } from "./colour.js";
import { s } from "./dom.js";

export const MOST_LINED = 64; // largest number of tokens on one side
const LEAST = 0.02;
const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

/** Approximate width of a word at a font size of 14 pixels; Chinese characters are twice as wide as letters. */
export const wordWidth = (word) => [...word].reduce((sum, letter) => sum + (letter.codePointAt(0) > 0x2e7f ? 14.5 : 8), 0);

const shown = (token) => (token === " " ? "␣" : token === "\n" ? "⏎" : token.trim() || token);

export function lines({ queries, keys, weights, label, width, lit = null, quiet = new Set(), names = {} }) {
  const room = (tokens) => tokens.reduce((sum, token) => sum + wordWidth(shown(token)) + 14, 0);
  const flat = Math.max(room(queries), room(keys)) <= width - 70;
  return (flat ? sideBySide : stacked)({ queries: queries.map(shown), keys: keys.map(shown), weights, label, width, lit, quiet, names });
}

function frame(width, height, label, children) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "lines", role: "img", "aria-label": label, "font-family": FONT }, children);
}

const strength = (lit, i) => (lit === null || lit === i ? 1 : 0.12);

function drawn(weights, lit, path) {
  const pairs = [];
  weights.forEach((row, i) =>
    row.forEach((weight, j) => {
      if (weight >= LEAST) pairs.push({ i, j, weight });
    }),
  );
  pairs.sort((a, b) => strength(lit, a.i) - strength(lit, b.i) || a.weight - b.weight);
  return pairs.map(({ i, j, weight }) =>
    s("path", {
      d: path(i, j),
      fill: "none",
      stroke: lit === i ? token("--accent") : css(weightColour(0.4 + 0.45 * weight)),
      "stroke-width": (0.8 + 6 * weight).toFixed(2),
      "stroke-linecap": "round",
      opacity: ((0.18 + 0.8 * weight) * strength(lit, i)).toFixed(3),
      class: "line",
      "data-query": i,
      "data-key": j,
    }),
  );
}

function word(text, x, y, { anchor, faded = false, strong = false, query = null, key = null }) {
  return s(
    "text",
    { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, fill: token(strong ? "--accent" : faded ? "--faint" : "--ink"), "font-size": 14, "font-weight": strong ? 700 : 500, "text-decoration": faded ? "line-through" : null, class: query === null ? "key" : "query", "data-query": query, "data-key": key },
    text,
  );
}

const caption = (text, x, y, anchor = "start") => s("text", { x, y, fill: token("--faint"), "font-size": 12, "text-anchor": anchor }, text ?? "");

/** Keys in a row above, queries in a row below. */
function sideBySide({ queries, keys, weights, label, width, lit, quiet, names }) {
  const height = 208;
  const places = (tokens) => {
    const widths = tokens.map((token) => wordWidth(token) + 14);
    const all = widths.reduce((a, b) => a + b, 0);
    const gap = Math.min(96, Math.max(0, (width - 40 - all) / tokens.length));
    let x = (width - all - gap * tokens.length) / 2;
    return widths.map((one) => {
      const middle = x + (one + gap) / 2;
      x += one + gap;
      return middle;
    });
  };
  const [above, below] = [places(keys), places(queries)];
  const [top, bottom] = [44, height - 48];
  const path = (i, j) => `M${above[j].toFixed(1)} ${top}C${above[j].toFixed(1)} ${(top + bottom) / 2} ${below[i].toFixed(1)} ${(top + bottom) / 2} ${below[i].toFixed(1)} ${bottom}`;
  return frame(width, height, label, [
    caption(names.keys, 2, 13),
    caption(names.queries, 2, height - 6),
    drawn(weights, lit, path),
    keys.map((token, j) => word(token, above[j], top - 9, { anchor: "middle", key: j })),
    queries.map((token, i) => word(token, below[i], bottom + 20, { anchor: "middle", query: i, faded: quiet.has(i), strong: lit === i })),
  ]);
}

/** Queries on the left, keys on the right, one per line. */
function stacked({ queries, keys, weights, label, width, lit, quiet, names }) {
  const step = 23;
  const rows = Math.max(queries.length, keys.length);
  const height = 30 + rows * step + 8;
  const y = (n, count) => 44 + (n + (rows - count) / 2) * step;
  const widest = (tokens) => Math.min(Math.max(...tokens.map(wordWidth)), width * 0.34) + 12;
  const [left, right] = [widest(queries), width - widest(keys)];
  const path = (i, j) => {
    const [from, to] = [y(i, queries.length) - 5, y(j, keys.length) - 5];
    return `M${left} ${from}C${(left + right) / 2} ${from} ${(left + right) / 2} ${to} ${right} ${to}`;
  };
  return frame(width, height, label, [
    caption(names.queries, left - 8, 14, "end"),
    caption(names.keys, width - 2, 14, "end"),
    drawn(weights, lit, path),
    queries.map((token, i) => word(token, left - 8, y(i, queries.length), { anchor: "end", query: i, faded: quiet.has(i), strong: lit === i })),
    keys.map((token, j) => word(token, right + 8, y(j, keys.length), { anchor: "start", key: j })),
  ]);
}
