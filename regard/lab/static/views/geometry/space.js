// Arrows in 3D as SVG: rotation about the vertical axis, tilt towards the viewer, perspective projection.

import { colour, labelled, placed } from "./marks.js";
import { s } from "../../kit/dom.js";
import { token } from "../../kit/colour.js";

export const SIZE = { width: 720, height: 540 };

/** On phones the picture has fewer units, so that its text is not scaled down. */
export function fit(width) {
  Object.assign(SIZE, width < 560 ? { width: 400, height: 360 } : { width: 720, height: 540 });
}

const AWAY = 5.2; // distance of the viewer from the centre, in lengths of the longest arrow

/** Projection of (x, y, z), with z vertical, to the screen, and its inverse for outputChanges on the screen. */
export function camera(yaw, pitch, longest) {
  const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
  const unit = (0.43 * SIZE.height) / longest;
  const right = [cy, sy, 0];
  const up = [-sy * sp, cy * sp, cp];
  const toEye = [sy * cp, -cy * cp, sp];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  return {
    at(point) {
      const depth = dot(point, toEye);
      const near = AWAY / (AWAY - depth / longest);
      return { x: SIZE.width / 2 + unit * near * dot(point, right), y: SIZE.height * 0.52 - unit * near * dot(point, up), depth, near };
    },
    /** The point moved by pixels in the plane of the screen, and by `forth` towards the eye. */
    moved(point, dx, dy, forth = 0) {
      const near = AWAY / (AWAY - dot(point, toEye) / longest);
      const across = dx / (unit * near);
      const along = -dy / (unit * near);
      return point.map((x, i) => x + across * right[i] + along * up[i] + forth * toEye[i]);
    },
  };
}

const line = (a, b, properties) => s("line", { x1: a.x.toFixed(2), y1: a.y.toFixed(2), x2: b.x.toFixed(2), y2: b.y.toFixed(2), ...properties });

function ground(view, reach) {
  const parts = [];
  const lines = 4;
  for (let i = -lines; i <= lines; i++) {
    const at = (reach * i) / lines;
    const style = { stroke: token("--line"), "stroke-width": i === 0 ? 1.6 : 1 };
    parts.push(line(view.at([at, -reach, 0]), view.at([at, reach, 0]), style), line(view.at([-reach, at, 0]), view.at([reach, at, 0]), style));
  }
  const axes = [[reach, 0, 0], [0, reach, 0], [0, 0, reach]];
  axes.forEach((end, i) => {
    const tip = view.at(end);
    parts.push(line(view.at([0, 0, 0]), tip, { stroke: token("--strong-line"), "stroke-width": 1.2 }));
    parts.push(labelled(tip.x + 6, tip.y + 4, String(i + 1), { fill: token("--faint"), "font-size": 12 }));
  });
  return parts;
}

/** An arrow from the origin; its head grows with the width of the shaft. */
function arrow(view, point, width, fill, properties = {}) {
  const from = view.at([0, 0, 0]);
  const to = view.at(point);
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const head = Math.min(length, 9 + 1.5 * width);
  const half = 3.5 + 0.8 * width;
  const neck = { x: to.x - ux * head, y: to.y - uy * head };
  const corners = [to, { x: neck.x - uy * half, y: neck.y + ux * half }, { x: neck.x + uy * half, y: neck.y - ux * half }];
  return s(
    "g",
    properties,
    line(from, neck, { stroke: fill, "stroke-width": width.toFixed(2), "stroke-linecap": "round" }),
    s("polygon", { points: corners.map((c) => `${c.x.toFixed(2)},${c.y.toFixed(2)}`).join(" "), fill }),
  );
}

/** The perpendicular from the tip of an arrow to the ground plane, which shows its position in space. */
function drop(view, point) {
  const foot = view.at([point[0], point[1], 0]);
  return [
    line(view.at(point), foot, { stroke: token("--strong-line"), "stroke-width": 1, "stroke-dasharray": "2 4" }),
    s("circle", { cx: foot.x.toFixed(2), cy: foot.y.toFixed(2), r: 2.2, fill: token("--strong-line") }),
  ];
}

/** Draw everything, farthest first, then the names where there is space. `keys` are { name, point, weight, passes }. */
export function draw({ view, keys, query, name, reach }) {
  const most = Math.max(...keys.map((key) => key.weight), 1e-9);
  const end = view.at(query);
  const things = keys.map((key) => ({
    depth: view.at(key.point).depth,
    draw: () => [drop(view, key.point), arrow(view, key.point, 1.4 + 13 * key.weight, colour(key.weight / most), { class: "key", opacity: key.passes ? 1 : 0.38 })],
  }));
  things.push({
    depth: end.depth,
    draw: () => [
      drop(view, query),
      arrow(view, query, 3.2, token("--accent"), { class: "query" }),
      s("circle", { cx: end.x.toFixed(2), cy: end.y.toFixed(2), r: 13, fill: token("--accent"), "fill-opacity": 0.16, stroke: token("--accent"), "stroke-width": 1.6, class: "handle" }),
    ],
  });
  things.sort((a, b) => a.depth - b.depth);
  const names = [{ at: end, text: name, away: 18, style: { fill: token("--accent"), "font-weight": 700 } }];
  for (const key of [...keys].sort((a, b) => b.weight - a.weight)) {
    const style = { fill: token(key.passes ? "--ink" : "--faint"), "font-weight": key.passes ? 650 : 400 };
    names.push({ at: view.at(key.point), text: key.name, away: 8, style });
  }
  return [ground(view, reach), things.map((thing) => thing.draw()), placed(names, [{ left: end.x - 15, right: end.x + 15, top: end.y - 15, bottom: end.y + 15 }], SIZE.width)];
}
