// Python in colours: comments, strings, numbers, words of the language. A tint for the eye, no parser.

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

/** The text in pieces, the ones that matter in spans of a class. */
export function tinted(code) {
  const found = [];
  let at = 0;
  for (const match of code.matchAll(PARTS)) {
    if (match.index > at) found.push(code.slice(at, match.index));
    const which = match.slice(1).findIndex((group) => group !== undefined);
    found.push(h("span", { class: `py-${CLASSES[which]}` }, match[0]));
    at = match.index + match[0].length;
  }
  found.push(code.slice(at));
  return found;
}

/** A block of code to read. A keyboard can scroll it. */
export const codeBlock = (code, label) => h("pre", { class: "code-block", tabindex: 0, role: "region", "aria-label": label }, h("code", {}, tinted(code)));
