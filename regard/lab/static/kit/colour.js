// Colours of numbers, the same as in regard.pictures: weights from 0 to 1 along one perceptual path, and signed
// numbers from warm over the background to blue.

import { facts } from "./facts.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const tokens = new Map();
let isDark = false;

/** Look anew at the theme: after a switch, and when the system's own changes. Colours are asked for cell by cell. */
export function readTheme() {
  const asked = document.documentElement.dataset.theme;
  isDark = asked ? asked === "dark" : system.matches;
  tokens.clear();
}
readTheme();
system.addEventListener("change", readTheme);

export const dark = () => isDark;

const probe = document.createElement("span");

/** A colour token of style.css as rgb(…), as it is in the theme of now. */
export function token(name) {
  if (!tokens.has(name)) tokens.set(name, resolved(name));
  return tokens.get(name);
}

function resolved(name) {
  if (!probe.isConnected) {
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** [red, green, blue] of a weight from 0 to 1. */
export function weightColour(share) {
  const table = facts.colours[dark() ? "dark" : "light"];
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, share || 0)));
  return [table[i], table[i + 1], table[i + 2]];
}

const SIGNED = {
  light: { zero: [255, 255, 255], plus: [92, 140, 205], minus: [224, 138, 84] },
  dark: { zero: [26, 32, 41], plus: [62, 106, 176], minus: [168, 88, 42] },
};

/** [red, green, blue] of a number from −1 to 1. */
export function signedColour(share) {
  const { zero, plus, minus } = SIGNED[dark() ? "dark" : "light"];
  const end = share < 0 ? minus : plus;
  const much = Math.min(1, Math.abs(share || 0)) ** 0.8;
  return zero.map((from, i) => Math.round(from + (end[i] - from) * much));
}

/** Black or white, whichever reads better on a colour. */
export function inkOn([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((x) => (x / 255) ** 2.2);
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? "#000000" : "#ffffff";
}

export const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

/** The colour of value number x of a matrix: kind "weights" (0 to 1), "signed" (to ± most) or "plain". */
export function colourOf(x, kind, most = 1) {
  if (kind === "plain" || !Number.isFinite(x)) return null;
  return kind === "weights" ? weightColour(x / (most || 1)) : signedColour(x / (most || 1));
}
