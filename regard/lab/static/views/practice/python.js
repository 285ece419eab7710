// Syntax colours for Python by a regular expression: comments, strings, numbers, keywords.

import { h } from "../../kit/dom.js";

const KEYWORDS =
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield";
const PARTS = new RegExp(
  [
    `(#[^\\n]*)`,
    `("""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?)`,
    `\\b(${KEYWORDS.replaceAll(" ", "|")})\\b`,
    `(\\b\\d[\\w.]*|^>>>|^\\.\\.\\.)`,
  ].join("|"),
  "gm",
);
const CLASSES = ["comment", "string", "keyword", "number"];

/** Return the code as strings and, for coloured parts, spans with a class. */
export function tinted(code) {
  const pieces = [];
  let at = 0;
  for (const match of code.matchAll(PARTS)) {
    if (match.index > at) pieces.push(code.slice(at, match.index));
    const which = match.slice(1).findIndex((group) => group !== undefined);
    pieces.push(h("span", { class: `py-${CLASSES[which]}` }, match[0]));
    at = match.index + match[0].length;
  }
  pieces.push(code.slice(at));
  return pieces;
}

/** A read-only block of code that can be scrolled with the keyboard. */
export const codeBlock = (code, label) => h("pre", { class: "code-block", tabindex: 0, role: "region", "aria-label": label }, h("code", {}, tinted(code)));
