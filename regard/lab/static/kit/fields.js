// Labelled controls with a message at the field. Each is { element, input, value, set, complain }.

import { freshId, h, rich } from "./dom.js";
import { knows, t } from "./text.js";

function field(label, input, { hint, kind = "", after = null, wide = false } = {}) {
  const id = (input.id ||= freshId("field"));
  const message = h("p", { class: "field-message", id: `${id}-message`, hidden: true });
  const said = hint ? h("p", { class: "field-hint", id: `${id}-hint` }, hint) : null;
  const described = [hint && `${id}-hint`, `${id}-message`].filter(Boolean).join(" ");
  input.setAttribute("aria-describedby", described);
  const element = h(
    "div",
    { class: `field ${kind}${wide ? " wide" : ""}` },
    h("label", { for: id }, rich(label)),
    h("div", { class: "field-control" }, input, after),
    said,
    message,
  );
  return {
    element,
    input,
    /** Say what is wrong, or take it back with null. */
    complain(text) {
      message.textContent = text ?? "";
      message.hidden = !text;
      input.toggleAttribute("aria-invalid", Boolean(text));
      if (text) input.setAttribute("aria-invalid", "true");
      element.classList.toggle("wrong", Boolean(text));
    },
  };
}

export function textField({ label, value, onchange, hint, lines, wide = true, placeholder, spellcheck = false }) {
  const input = lines
    ? h("textarea", { rows: lines, placeholder, spellcheck: String(spellcheck) })
    : h("input", { type: "text", placeholder, spellcheck: String(spellcheck), autocomplete: "off" });
  input.value = value;
  input.addEventListener("input", () => onchange(input.value));
  const made = field(label, input, { hint, wide, kind: "text" });
  return Object.assign(made, { value: () => input.value, set: (text) => input.value !== text && (input.value = text) });
}

/** A whole or real number; what is no number within bounds is complained of here and not passed on. */
export function numberField({ label, value, min, max, step = 1, onchange, hint }) {
  const input = h("input", { type: "number", min, max, step: step === 1 ? 1 : "any", inputmode: "decimal" });
  input.value = value;
  const made = field(label, input, { hint, kind: "number" });
  let own = null; // what is wrong with what stands here; an answer to what stood here before does not take it back
  const judge = (words) => {
    own = words;
    made.complain(own);
  };
  input.addEventListener("input", () => {
    const typed = input.valueAsNumber;
    const whole = step === 1;
    if (Number.isFinite(typed) && typed >= min && typed <= max && (!whole || Number.isInteger(typed))) {
      judge(null);
      onchange(typed);
    } else judge(whole ? t("error.whole", { least: min, most: max }) : t("error.real", { least: min, most: max }));
  });
  const set = (x) => {
    if (document.activeElement === input) return;
    input.value = x;
    if (own) judge(null);
  };
  return { ...made, value: () => input.valueAsNumber, set, complain: (words) => made.complain(own ?? words) };
}

/** A slider that says its number; `log` spaces it by factors. */
export function sliderField({ label, value, min, max, step = 1, log = false, onchange, format = String, hint }) {
  const to = log ? Math.log : (x) => x;
  const from = log ? (x) => Number(Math.exp(x).toPrecision(3)) : (x) => x;
  const input = h("input", { type: "range", min: to(min), max: to(max), step: log ? (to(max) - to(min)) / 200 : step });
  const output = h("output", { class: "field-value" });
  const made = field(label, input, { hint, kind: "slider", after: output });
  const show = (x) => {
    output.textContent = format(x);
    input.setAttribute("aria-valuetext", format(x));
  };
  const set = (x) => {
    input.value = to(x);
    show(x);
  };
  set(value);
  input.addEventListener("input", () => {
    const x = from(input.valueAsNumber);
    show(x);
    onchange(x);
  });
  return Object.assign(made, { value: () => from(input.valueAsNumber), set });
}

/** One of several: options are [value, label]. */
export function choiceField({ label, value, options, onchange, hint }) {
  const input = h("select", {}, options.map(([id, text]) => h("option", { value: id }, text)));
  input.value = value;
  input.addEventListener("change", () => onchange(input.value));
  const made = field(label, input, { hint, kind: "choice" });
  return Object.assign(made, { value: () => input.value, set: (id) => (input.value = id) });
}

/** On or off. */
export function switchField({ label, value, onchange, hint }) {
  const input = h("input", { type: "checkbox", role: "switch" });
  input.checked = value;
  input.addEventListener("change", () => onchange(input.checked));
  const made = field(label, input, { hint, kind: "switch" });
  return Object.assign(made, { value: () => input.checked, set: (on) => (input.checked = on) });
}

/** The words of something refused: those of the view, those of all views, or the server's own. */
export function wordsOf(error, view) {
  for (const key of [`${view}.error.${error.code}`, `error.${error.code}`]) if (knows(key)) return t(key, error.facts);
  return error.message || t("error.failed");
}

/** Take back all complaints, then put the words of an error at its field; false when it belongs to none. */
export function complainAt(fields, error, view) {
  for (const one of Object.values(fields)) one.complain(null);
  const at = error && fields[error.field];
  if (at) at.complain(wordsOf(error, view));
  return Boolean(at);
}
