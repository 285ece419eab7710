// Short messages: visible toasts, and a live region that only screen readers read.

import { h } from "./dom.js";

const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
const region = h("div", { class: "visually-hidden", "aria-live": "polite", id: "said" });

export const notes = () => [toasts, region];

export function toast(text, { wrong = false, seconds = 4 } = {}) {
  const note = h("p", { class: `toast${wrong ? " wrong" : ""}` }, text);
  toasts.append(note);
  setTimeout(() => note.remove(), seconds * 1000);
}

/** Remove all toasts: they belong to the view that is left. */
export const clearToasts = () => toasts.replaceChildren();

/** Announce a text to screen readers only. */
export function announce(text) {
  region.textContent = text;
}
