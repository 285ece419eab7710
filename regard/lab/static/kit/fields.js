// Labelled form controls with an error message below the control. Each is { element, input, value, set, showError }.

import { preparedBodies } from "./api.js";
import { freshId, h, rich } from "./dom.js";
import { edition } from "./facts.js";
import { hasText, t } from "./text.js";

function field(label, input, { hint, kind = "", after = null, wide = false } = {}) {
  const id = (input.id ||= freshId("field"));
  const message = h("p", { class: "field-message", id: `${id}-message`, hidden: true });
  const hintLine = hint ? h("p", { class: "field-hint", id: `${id}-hint` }, hint) : null;
  const described = [hint && `${id}-hint`, `${id}-message`].filter(Boolean).join(" ");
  input.setAttribute("aria-describedby", described);
  const element = h(
    "div",
    { class: `field ${kind}${wide ? " wide" : ""}` },
    h("label", { for: id }, rich(label)),
    h("div", { class: "field-control" }, input, after),
    hintLine,
    message,
  );
  return {
    element,
    input,
    /** Show an error message below the field; null removes it. */
    showError(text) {
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
  const control = field(label, input, { hint, wide, kind: "text" });
  return Object.assign(control, { value: () => input.value, set: (text) => input.value !== text && (input.value = text) });
}

/** Text field of a sentence; in the static edition a choice of the sentences that are prepared for a path. */
export function sentenceField(path, options) {
  if (!edition) return textField(options);
  const texts = [...new Set(preparedBodies(path).map((body) => body.text))];
  const control = choiceField({ ...options, options: texts.map((text) => [text, text]) });
  control.element.classList.add("text");
  control.element.classList.toggle("wide", options.wide ?? true);
  return control;
}

/** In the static edition, disable the fields and options of a form for which no answer is prepared beside the other values. */
export function limitToPrepared(fields, path, body) {
  if (!edition) return;
  const bodies = preparedBodies(path);
  for (const [name, { element, input }] of Object.entries(fields)) {
    const others = bodies.filter((one) => Object.keys(body).every((key) => key === name || !(key in one) || JSON.stringify(one[key]) === JSON.stringify(body[key])));
    const values = new Set(others.map((one) => String(one[name])));
    if (input.tagName === "SELECT") for (const option of input.options) option.disabled = !values.has(option.value);
    input.disabled = values.size < 2;
    element.classList.toggle("needs-python", input.disabled);
  }
}

/** Number input; values that are not numbers within the bounds show an error here and are not passed to onchange. */
export function numberField({ label, value, min, max, step = 1, onchange, hint }) {
  const input = h("input", { type: "number", min, max, step: step === 1 ? 1 : "any", inputmode: "decimal" });
  input.value = value;
  const control = field(label, input, { hint, kind: "number" });
  let ownError = null; // error of the current input; a server's answer to an earlier input must not remove it
  const judge = (words) => {
    ownError = words;
    control.showError(ownError);
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
    if (ownError) judge(null);
  };
  return { ...control, value: () => input.valueAsNumber, set, showError: (words) => control.showError(ownError ?? words) };
}

/** Slider with its value beside it; with `log` the scale is logarithmic. */
export function sliderField({ label, value, min, max, step = 1, log = false, onchange, format = String, hint }) {
  const to = log ? Math.log : (x) => x;
  const from = log ? (x) => Number(Math.exp(x).toPrecision(3)) : (x) => x;
  const input = h("input", { type: "range", min: to(min), max: to(max), step: log ? (to(max) - to(min)) / 200 : step });
  const output = h("output", { class: "field-value" });
  const control = field(label, input, { hint, kind: "slider", after: output });
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
  return Object.assign(control, { value: () => from(input.valueAsNumber), set });
}

/** Select box; options are [value, label]. */
export function choiceField({ label, value, options, onchange, hint }) {
  const input = h("select", {}, options.map(([id, text]) => h("option", { value: id }, text)));
  input.value = value;
  input.addEventListener("change", () => onchange(input.value));
  const control = field(label, input, { hint, kind: "choice" });
  return Object.assign(control, { value: () => input.value, set: (id) => (input.value = id) });
}

/** Switch that is on or off. */
export function switchField({ label, value, onchange, hint }) {
  const input = h("input", { type: "checkbox", role: "switch" });
  input.checked = value;
  input.addEventListener("change", () => onchange(input.checked));
  const control = field(label, input, { hint, kind: "switch" });
  return Object.assign(control, { value: () => input.checked, set: (on) => (input.checked = on) });
}

/** Return the text of a request error: the view's text for its code, else the common text, else the server's message. */
export function errorText(error, view) {
  for (const key of [`${view}.error.${error.code}`, `error.${error.code}`]) if (hasText(key)) return t(key, error.facts);
  return error.message || t("error.failed");
}

/** Remove all error messages, then show the error at its field; return false if the error belongs to no field. */
export function showErrorAt(fields, error, view) {
  for (const one of Object.values(fields)) one.showError(null);
  const at = error && fields[error.field];
  if (at) at.showError(errorText(error, view));
  return Boolean(at);
}
