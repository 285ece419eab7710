// Convert the course's Markdown to elements: paragraphs, code, tables, lists, headings; `code`, **strong** and *emphasis*.
// All content becomes text nodes; nothing is parsed as HTML.

import { h } from "../../kit/dom.js";
import { inline } from "../../kit/inline.js";
import { codeBlock } from "./python.js";

/** Join lines to one paragraph, without a space between Chinese characters. */
const joined = (lines) => lines.reduce((whole, line) => whole + (whole === "" || (/[　-鿿＀-￯]$/.test(whole) && /^[　-鿿＀-￯*`]/.test(line)) ? "" : " ") + line.trim(), "");

/** Join lines of code; doctest's <BLANKLINE> becomes an empty line. */
const shown = (lines) => lines.map((line) => line.replace("<BLANKLINE>", "")).join("\n");

/** Return the blocks of a text; `code` is the label of code blocks for screen readers. */
export function markdown(text, code) {
  const lines = text.split("\n");
  const blocks = [];
  const until = (test) => {
    const block = [];
    while (lines.length && test(lines[0])) block.push(lines.shift());
    return block;
  };
  const plain = (line) => line.trim() !== "" && !/^(```|    |\||- |#)/.test(line);
  while (lines.length) {
    const line = lines[0];
    if (line.trim() === "") lines.shift();
    else if (line.startsWith("```")) {
      lines.shift();
      blocks.push(codeBlock(shown(until((one) => !one.startsWith("```"))), code));
      lines.shift();
    } else if (line.startsWith("    ")) {
      const block = until((one) => one.startsWith("    ") || (one.trim() === "" && lines[1]?.startsWith("    ")));
      blocks.push(codeBlock(shown(block.map((one) => one.slice(4))), code));
    } else if (line.startsWith("|")) blocks.push(table(until((one) => one.startsWith("|"))));
    else if (line.startsWith("- ")) {
      const items = [];
      for (const one of until((each) => each.startsWith("- ") || /^ {1,3}\S/.test(each))) one.startsWith("- ") ? items.push([one.slice(2)]) : items.at(-1).push(one);
      blocks.push(h("ul", {}, items.map((item) => h("li", {}, inline(joined(item))))));
    } else if (line.startsWith("#")) blocks.push(h("h3", {}, inline(lines.shift().replace(/^#+ /, ""))));
    else blocks.push(h("p", {}, inline(joined(until(plain)))));
  }
  return blocks;
}

function table(lines) {
  const cells = (line) => line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const [head, , ...rows] = lines.map(cells);
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "plain" },
      h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, inline(cell))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, inline(cell)))))),
    ),
  );
}
