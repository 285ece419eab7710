// A code editor based on a textarea: line numbers, syntax colours, indentation by Tab and Shift+Tab. Escape, then Tab,
// moves the focus out, so that keyboard users can leave it.

import { freshId, h, put } from "../../kit/dom.js";
import { tinted } from "./python.js";

const STEP = "    ";
const PAIRS = { "(": ")", "[": "]", "{": "}", '"': '"', "'": "'" };

export function editor({ value, label, help, onchange = () => {}, onrun = () => {} }) {
  const helpId = freshId("help");
  const input = h("textarea", { class: "editor-text", wrap: "off", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": label, "aria-describedby": helpId });
  const tint = h("pre", { class: "editor-tint", "aria-hidden": "true" });
  const gutter = h("pre", { class: "editor-gutter", "aria-hidden": "true" });
  const element = h("div", {}, h("div", { class: "editor" }, gutter, h("div", { class: "editor-code" }, tint, input)), h("p", { class: "remark", id: helpId }, help));
  let leaving = false;

  function draw() {
    const lines = input.value.split("\n").length;
    input.rows = Math.max(12, lines + 1);
    put(gutter, Array.from({ length: lines }, (_, i) => `${i + 1}`).join("\n"));
    put(tint, tinted(input.value), "\n");
    follow();
  }

  function follow() {
    tint.style.transform = `translateX(${-input.scrollLeft}px)`;
  }

  /** Replace the selection in a way that undo can revert. */
  function type(text) {
    if (!document.execCommand("insertText", false, text)) {
      input.setRangeText(text, input.selectionStart, input.selectionEnd, "end");
      input.dispatchEvent(new Event("input"));
    }
  }

  const lineStart = (at) => input.value.lastIndexOf("\n", at - 1) + 1;

  function indent(back) {
    const { selectionStart: from, selectionEnd: to, value } = input;
    if (!back && from === to) {
      type(STEP.slice((from - lineStart(from)) % STEP.length));
      return;
    }
    const begin = lineStart(from);
    const whole = value.slice(begin, to);
    const changed = whole
      .split("\n")
      .map((line) => (back ? line.replace(/^ {1,4}/, "") : line && STEP + line))
      .join("\n");
    if (changed === whole) return;
    input.setSelectionRange(begin, to);
    type(changed);
    if (from === to) input.setSelectionRange(Math.max(begin, from + changed.length - whole.length), Math.max(begin, from + changed.length - whole.length));
    else input.setSelectionRange(begin, begin + changed.length);
  }

  function newLine() {
    const line = input.value.slice(lineStart(input.selectionStart), input.selectionStart);
    type(`\n${line.match(/^ */)[0]}${/:\s*(#.*)?$/.test(line) ? STEP : ""}`);
  }

  /** Type an opening bracket or quote with its partner, or step over a closing one; return whether the key is done. */
  function pair(key) {
    const { selectionStart: from, selectionEnd: to, value } = input;
    const next = value[to] ?? "";
    if (from === to && next === key && Object.values(PAIRS).includes(key)) {
      input.setSelectionRange(to + 1, to + 1);
      return true;
    }
    if (!(key in PAIRS)) return false;
    const quote = PAIRS[key] === key;
    if (from === to && (/[\w"']/.test(next) || (quote && /[\w"']/.test(value[from - 1] ?? "")))) return false;
    type(key + value.slice(from, to) + PAIRS[key]);
    input.setSelectionRange(from + 1, to + 1);
    return true;
  }

  /** Delete an empty pair of brackets, or one step of indentation; return whether the key is done. */
  function backspace() {
    const { selectionStart: at, selectionEnd: to, value } = input;
    if (at !== to || at === 0) return false;
    const indentation = value.slice(lineStart(at), at);
    const paired = PAIRS[value[at - 1]] !== undefined && PAIRS[value[at - 1]] === value[at];
    if (!paired && !/^ +$/.test(indentation)) return false;
    input.setSelectionRange(at - (paired ? 1 : indentation.length % STEP.length || STEP.length), paired ? at + 1 : at);
    document.execCommand("delete");
    return true;
  }

  input.addEventListener("keydown", (event) => {
    const left = leaving;
    leaving = event.key === "Escape" || (left && event.key === "Shift");
    if (event.isComposing) return;
    if (event.key === "Tab" && !left && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      indent(event.shiftKey);
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onrun();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      newLine();
    } else if (!event.ctrlKey && !event.altKey && !event.metaKey && (event.key === "Backspace" ? backspace() : pair(event.key))) {
      event.preventDefault();
    }
  });
  input.addEventListener("blur", () => (leaving = false));
  input.addEventListener("scroll", follow);
  input.addEventListener("input", () => {
    draw();
    onchange(input.value);
  });
  const set = (text) => {
    input.value = text;
    draw();
  };
  set(value);
  return { element, input, value: () => input.value, set };
}
