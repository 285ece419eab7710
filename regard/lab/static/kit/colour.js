// Colours of numbers, the same as in regard.pictures: weights from 0 to 1 along one perceptual scale, and signed numbers
// from orange (negative) over the background to blue (positive).

import { facts } from "./facts.js";

export { inkOn } from "../pictures/heatmap.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const tokens = new Map();
const signedTables = new Map();
let isDark = false;

/** Read the theme again, after it was switched on the page or in the system. */
export function readTheme() {
  const chosen = document.documentElement.dataset.theme;
  isDark = chosen ? chosen === "dark" : system.matches;
  tokens.clear();
}
readTheme();
system.addEventListener("change", readTheme);

export const dark = () => isDark;
const theme = () => (isDark ? "dark" : "light");

const probe = document.createElement("span");

/** A colour token of style.css as rgb(…) in the current theme. */
export function token(name) {
  if (!tokens.has(name)) tokens.set(name, resolve(name));
  return tokens.get(name);
}

function resolve(name) {
  if (!probe.isConnected) {
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const SIGNED = {
  light: { zero: [255, 255, 255], plus: [92, 140, 205], minus: [224, 138, 84] },
  dark: { zero: [26, 32, 41], plus: [62, 106, 176], minus: [168, 88, 42] },
};

/** 511 colours from the most negative over zero to the most positive. */
function signedTable() {
  if (!signedTables.has(theme())) {
    const { zero, plus, minus } = SIGNED[theme()];
    const colour = (n) => zero.map((from, i) => Math.round(from + ((n < 0 ? minus : plus)[i] - from) * (Math.abs(n) / 255)));
    signedTables.set(theme(), Array.from({ length: 511 }, (_, i) => colour(i - 255)).flat());
  }
  return signedTables.get(theme());
}

/** Return the colour table and a function from a number to its index (-1 for no colour); kind is "weights" (0 to most), "signed" (−most to most) or "plain". */
export function palette(kind, most = 1) {
  const share = (x) => Math.min(1, Math.abs(x) / (most || 1));
  if (kind === "weights") return { colours: facts.colours[theme()], index: (x) => (Number.isFinite(x) ? Math.round(255 * Math.max(0, Math.min(1, x / (most || 1)))) : -1) };
  if (kind === "signed") return { colours: signedTable(), index: (x) => (Number.isFinite(x) ? 255 + Math.round(Math.sign(x) * 255 * share(x) ** 0.8) : -1) };
  return { colours: [], index: () => -1 };
}

/** [red, green, blue] of a matrix entry, or null if it has no colour (see palette). */
export function colourOf(x, kind, most = 1) {
  const { colours, index } = palette(kind, most);
  const place = 3 * index(x);
  return place < 0 ? null : [colours[place], colours[place + 1], colours[place + 2]];
}

/** [red, green, blue] of a weight from 0 to 1. */
export const weightColour = (share) => colourOf(share || 0, "weights");

/** [red, green, blue] of a number from −1 to 1. */
export const signedColour = (share) => colourOf(share || 0, "signed");

export const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;
