// Matrices as an SVG figure for papers and slides, in the colours of the page.
//
// figure({ matrices: [{ name, sign, shape, values, rows, columns, kind, most, hidden }] }) → <svg>

import { colourOf, css, inkOn, token } from "./colour.js";
import { s } from "./dom.js";
import { most } from "./matrix.js";
import { number } from "./text.js";
import { FONT } from "./words.js";

const CELL = { width: 50, height: 26 };
const SMALL = 6; // size in pixels of a cell that shows no number
const WIDEST = 1180;

export function figure({ matrices }) {
  const ink = token("--ink");
  const faint = token("--faint");
  const drawn = matrices.map((one) => draw(one, ink, faint));
  let [x, y, tall, wide] = [0, 0, 0, 0];
  for (const one of drawn) {
    if (x > 0 && x + one.width > WIDEST) {
      x = 0;
      y += tall + 26;
      tall = 0;
    }
    one.group.setAttribute("transform", `translate(${x} ${y})`);
    x += one.width + 26;
    wide = Math.max(wide, x - 26);
    tall = Math.max(tall, one.height);
  }
  const height = y + tall;
  return s("svg", { viewBox: `0 0 ${wide} ${height}`, "font-family": FONT }, drawn.map((one) => one.group));
}

function draw({ name, title, sign, shape, values, rows, columns, kind = "signed", most: fullValue, hidden = () => false, text = (x) => number(x) }, ink, faint) {
  const large = rows.length > 24 || columns.length > 24;
  const cell = large ? { width: SMALL, height: SMALL } : CELL;
  const full = fullValue ?? (kind === "weights" ? 1 : most(values));
  const left = (sign ? 26 : 0) + (large ? 0 : 64);
  const top = large ? 22 : 42;
  const group = s("g");
  if (sign) group.append(s("text", { x: 8, y: top + (rows.length * cell.height) / 2 + 7, fill: faint, "font-size": 20, "text-anchor": "middle" }, sign));
  group.append(s("text", { x: left, y: 14, fill: ink, "font-size": 14, "font-weight": 700 }, named(typeof title === "string" ? title : name), s("tspan", { fill: faint, "font-weight": 400, dx: 8, "font-size": 12 }, shape ?? "")));
  if (!large) {
    columns.forEach((text, j) => group.append(s("text", { x: left + (j + 0.5) * cell.width, y: 35, fill: faint, "font-size": 11, "text-anchor": "middle" }, short(text, 7))));
    rows.forEach((text, i) => group.append(s("text", { x: left - 6, y: top + (i + 0.5) * cell.height + 4, fill: faint, "font-size": 11, "text-anchor": "end" }, short(text, 8))));
  }
  values.forEach((row, i) =>
    row.forEach((x, j) => {
      const colour = colourOf(x, kind, full);
      const [px, py] = [left + j * cell.width, top + i * cell.height];
      const gap = large ? 0 : 1;
      group.append(s("rect", { x: px + gap, y: py + gap, width: cell.width - 2 * gap, height: cell.height - 2 * gap, rx: large ? 0 : 3, fill: colour ? css(colour) : token("--raised") }));
      if (!large) group.append(s("text", { x: px + cell.width / 2, y: py + cell.height / 2 + 4, fill: hidden(i, j) || !colour ? faint : inkOn(colour), "font-size": 11.5, "text-anchor": "middle" }, text(x, i, j)));
    }),
  );
  return { group, width: left + columns.length * cell.width, height: top + rows.length * cell.height };
}

/** A name with its subscript, as in W_q and d_k. */
function named(text) {
  return text.split(/(_[A-Za-z]+)/).map((part) => (part.startsWith("_") ? [s("tspan", { dy: 4, "font-size": 10 }, part.slice(1)), s("tspan", { dy: -4 }, "\u200b")] : part));
}

const short = (text, longest) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);
