// Undo and redo of a view's settings: Ctrl+Z, Ctrl+Shift+Z or Ctrl+Y, and two buttons. Text fields keep the browser's own.
//
// undoHistory("trace", kit, { fields: ["text", …], merged: ["text", …] }) → { element, note(state), seal(), unmount() }
//   fields    the parts of the state that count; positions such as the open step do not
//   merged    fields whose quick changes (typing, dragging a slider) are undone together
// The view calls note(state) after every change of its state.

import { h, s } from "./dom.js";
import { t } from "./text.js";

const TOGETHER = 900; // milliseconds between changes that are undone together
const MOST = 200;
const histories = new Map(); // survive a change of language, which mounts the view again

export function undoHistory(name, kit, { fields, merged = [] }) {
  if (!histories.has(name)) histories.set(name, { past: [], now: null, future: [], field: null, at: 0 });
  const history = histories.get(name);
  const icon = (d) => s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, s("path", { d }));
  const button = (key, d, act) => h("button", { type: "button", class: "quiet icon-button", dataset: { do: key }, "aria-label": t(`undo.${key}`), title: t(`undo.${key}`), onclick: act }, icon(d));
  const back = button("undo", "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3", () => move(history.past, history.future));
  const forward = button("redo", "m15 14 5-5-5-5M20 9H10a6 6 0 0 0 0 12h3", () => move(history.future, history.past));
  const element = h("div", { class: "undo", role: "group", "aria-label": t("undo") }, back, forward);

  const show = () => {
    back.disabled = history.past.length === 0;
    forward.disabled = history.future.length === 0;
  };

  function move(from, to) {
    if (!from.length) return;
    to.push(history.now);
    history.now = from.pop();
    history.field = null;
    show();
    kit.go(structuredClone(history.now), { push: false });
  }

  function note(state) {
    const next = Object.fromEntries(fields.map((field) => [field, structuredClone(state[field])]));
    const changed = history.now ? fields.filter((field) => JSON.stringify(next[field]) !== JSON.stringify(history.now[field])) : [];
    if (history.now && changed.length === 0) return;
    const [field] = changed.filter((one) => merged.includes(one));
    const now = performance.now();
    const together = field !== undefined && field === history.field && now - history.at < TOGETHER;
    if (history.now && !together) {
      history.past.push(history.now);
      if (history.past.length > MOST) history.past.shift();
    }
    if (history.now) history.future.length = 0;
    Object.assign(history, { now: next, field: field ?? null, at: now });
    show();
  }

  function keys(event) {
    if (event.defaultPrevented || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    if (event.target.closest?.("input[type=text], textarea, [contenteditable]")) return;
    const key = event.key.toLowerCase();
    if (key === "z" && !event.shiftKey) move(history.past, history.future);
    else if ((key === "z" && event.shiftKey) || (key === "y" && !event.shiftKey)) move(history.future, history.past);
    else return;
    event.preventDefault();
  }
  addEventListener("keydown", keys);
  show();
  return {
    element,
    note,
    /** Changes after this are undone separately from those before. */
    seal: () => (history.field = null),
    unmount: () => removeEventListener("keydown", keys),
  };
}
