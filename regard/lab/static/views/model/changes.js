// The heads that differ between two sentences, largest difference first.

import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { headName } from "./names.js";

export const SHOWN = 8;
const COLUMNS = ["entropy", "distance", "sink"];

export const signed = (x) => (x > 0 ? `+${number(x, 3)}` : number(x, 3));

export function changes(rows, calls, chosen, onpick) {
  const most = Object.fromEntries(COLUMNS.map((name) => [name, Math.max(...rows.map((row) => Math.abs(row[name] ?? 0)), 1e-12)]));
  return h(
    "table",
    { class: "changes" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("model.head")), COLUMNS.map((name) => h("th", { scope: "col" }, `Δ ${t(`model.measure.${name}`)}`)))),
    h(
      "tbody",
      {},
      rows.slice(0, SHOWN).map((row) =>
        h(
          "tr",
          { class: row.call === chosen.call && row.head === chosen.head ? "chosen" : "" },
          h("th", { scope: "row" }, h("button", { type: "button", class: "small", dataset: { call: row.call, head: row.head }, onclick: () => onpick(row.call, row.head) }, headName(calls[row.call].name, row.head))),
          COLUMNS.map((name) =>
            row[name] === undefined
              ? h("td", { class: "faint", dataset: { value: "", measure: name } }, t("model.unknown"))
              : h(
                  "td",
                  { dataset: { value: String(row[name]), measure: name } },
                  h("span", { class: "change-value" }, signed(row[name])),
                  h("span", { class: "change-bar" }, h("span", { class: row[name] < 0 ? "less" : "more", style: { width: `${(50 * Math.abs(row[name])) / most[name]}%` } })),
                ),
          ),
        ),
      ),
    ),
  );
}
