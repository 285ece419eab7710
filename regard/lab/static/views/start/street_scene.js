// The drawing of a street: a building, pedestrians and a red car. The more weight a thing has, the clearer it is drawn.

import { dark, token } from "../../kit/colour.js";
import { s } from "../../kit/dom.js";

export const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

const COLOURS = {
  light: { sky: "#e9f1f8", road: "#c9ccd1", walk: "#e6e3dc", stripe: "#ffffff", wall: "#c79a6b", roof: "#8a5a3c", glass: "#f5e3b5", door: "#6d4a33", sign: "#2f5fa8", red: "#cf2a20", shade: "#8e1710", tyre: "#23272e", window: "#d8ecf8", skin: "#e3b08c", hair: "#4a3427", glow: "#ffb703" },
  dark: { sky: "#18222e", road: "#333b46", walk: "#27303b", stripe: "#aab4c0", wall: "#9a7350", roof: "#6b462f", glass: "#f0cf7a", door: "#4f3525", sign: "#8db4ee", red: "#e8493d", shade: "#a3261c", tyre: "#0c0f13", window: "#9fc4dc", skin: "#d9a37d", hair: "#2c1f18", glow: "#ffd166" },
};
const COATS = ["#3f7d5a", "#5b6ea8", "#b07a2a"];
const PLACES = { building: [150, 118], people: [322, 196], car: [482, 246] };
const LABELS = { building: [150, 22], people: [330, 98], car: [500, 150] };

export function scene(weights) {
  const c = COLOURS[dark() ? "dark" : "light"];
  const [car, people, building] = weights;
  return [
    s("rect", { width: 640, height: 330, fill: c.sky }),
    s("rect", { y: 214, width: 640, height: 24, fill: c.walk }),
    s("rect", { y: 238, width: 640, height: 92, fill: c.road }),
    [0, 1, 2, 3, 4, 5].map((n) => s("rect", { x: 20 + 110 * n, y: 304, width: 56, height: 5, fill: c.stripe, opacity: 0.8 })),
    glow("building", building, c, 150, 108),
    glow("people", people, c, 96, 70),
    glow("car", car, c, 128, 72),
    seen(building, house(c)),
    seen(people, [person(c, 284, 176, 0), person(c, 322, 170, 1), person(c, 362, 178, 2)]),
    seen(car, redCar(c)),
  ];
}

const seen = (weight, children) => s("g", { opacity: (0.3 + 0.7 * Math.min(1, weight / 0.55)).toFixed(3) }, children);

const glow = (thing, weight, c, rx, ry) => s("ellipse", { cx: PLACES[thing][0], cy: PLACES[thing][1], rx: (rx * (0.55 + 0.5 * weight)).toFixed(1), ry: (ry * (0.55 + 0.5 * weight)).toFixed(1), fill: c.glow, opacity: (0.6 * weight).toFixed(3) });

function house(c) {
  const windows = [0, 1, 2].flatMap((row) => [0, 1, 2].map((column) => s("rect", { x: 84 + 50 * column, y: 62 + 44 * row, width: 30, height: 28, rx: 2, fill: c.glass })));
  return [
    s("path", { d: "M58 50 150 24 242 50v8H58Z", fill: c.roof }),
    s("rect", { x: 66, y: 56, width: 168, height: 160, fill: c.wall }),
    windows.filter((_, i) => i !== 7),
    s("rect", { x: 132, y: 168, width: 34, height: 48, fill: c.door }),
    s("rect", { x: 112, y: 146, width: 76, height: 16, rx: 3, fill: c.sign }),
    s("path", { d: "M122 154h56", stroke: "#fff", "stroke-width": 3, "stroke-linecap": "round" }),
  ];
}

function person(c, x, y, n) {
  const step = n === 1 ? 6 : 9;
  return s(
    "g",
    { transform: `translate(${x} ${y})` },
    s("path", { d: `M-4 34 ${-step} 60M4 34 ${step} 60`, stroke: c.tyre, "stroke-width": 6, "stroke-linecap": "round" }),
    s("path", { d: "M-9 10q9-7 18 0l2 26h-22Z", fill: COATS[n] }),
    s("path", { d: `M-9 13l-6 16M9 13l${n === 2 ? 11 : 6} ${n === 2 ? 8 : 16}`, stroke: COATS[n], "stroke-width": 5, "stroke-linecap": "round" }),
    s("circle", { cy: -4, r: 9, fill: c.skin }),
    s("path", { d: "M-9-5a9 9 0 0 1 18 0q-9-6-18 0Z", fill: c.hair }),
  );
}

function redCar(c) {
  const wheel = (x) => [s("circle", { cx: x, cy: 276, r: 18, fill: c.tyre }), s("circle", { cx: x, cy: 276, r: 8, fill: c.stripe })];
  return [
    s("path", { d: "M388 272v-20q0-10 12-12l26-4 24-28q5-6 14-6h56q10 0 16 7l22 27 22 5q14 3 14 15v16q0 6-6 6H394q-6 0-6-6Z", fill: c.red }),
    s("path", { d: "M388 262h206v10q0 6-6 6H394q-6 0-6-6Z", fill: c.shade }),
    s("path", { d: "M440 236l18-22q3-4 8-4h22v26ZM496 210h22q6 0 10 5l17 21h-49Z", fill: c.window }),
    s("rect", { x: 578, y: 248, width: 14, height: 8, rx: 3, fill: c.glass }),
    wheel(430),
    wheel(550),
  ];
}

/** A thing's name and weight on a small plate; `size` enlarges it on a phone, where the drawing is small. */
export function label(thing, name, weight, size) {
  const [x, y] = LABELS[thing];
  const width = 58 + [...name].reduce((sum, letter) => sum + (letter.codePointAt(0) > 0x2e7f ? 15 : 8), 0);
  return s(
    "g",
    { transform: `translate(${Math.min(x, 636 - (size * width) / 2)} ${Math.max(y, 17 * size)}) scale(${size})` },
    s("rect", { x: -width / 2, y: -15, width, height: 30, rx: 15, fill: token("--surface"), stroke: token("--strong-line") }),
    s("text", { y: 5, "text-anchor": "middle", "font-size": 15, fill: token("--ink") }, `${name} `, s("tspan", { "font-weight": 700, fill: token("--accent") }, weight)),
  );
}
