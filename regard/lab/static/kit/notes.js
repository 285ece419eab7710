// Short notes: a toast for the eye, and a live region for a screen reader.

import { h } from "./dom.js";

const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
const region = h("div", { class: "visually-hidden", "aria-live": "polite", id: "said" });

export const notes = () => [toasts, region];

export function toast(text, { wrong = false, seconds = 4 } = {}) {
  const note = h("p", { class: `toast${wrong ? " wrong" : ""}` }, text);
  toasts.append(note);
  setTimeout(() => note.remove(), seconds * 1000);
}

/** Say something to a screen reader alone. */
export function say(text) {
  region.textContent = text;
}
