// Statistics of one head, as means over the queries; of two texts side by side, with the change.

import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { signed } from "./changes.js";

const COLUMNS = ["entropy", "distance", "spread", "sink", "no_key"];

/** statistics(heads, texts): the rows of the head in each text, and the texts. */
export function statistics(heads, texts) {
  const written = (x) => (x === null ? t("model.unknown") : number(x, 3));
  const row = (name, values, write) => h("tr", {}, h("th", { scope: "row" }, name), COLUMNS.map((column, i) => h("td", { dataset: { value: String(values[i] ?? ""), measure: column } }, write(values[i]))));
  const numbers = heads.map((head) => COLUMNS.map((column) => head[column]));
  const rows = numbers.map((values, which) => row(heads.length > 1 ? texts[which] : t("model.mean"), values, written));
  if (heads.length > 1) {
    const changes = COLUMNS.map((_, i) => (numbers[0][i] === null || numbers[1][i] === null ? null : numbers[1][i] - numbers[0][i]));
    rows.push(row(t("model.change"), changes, (x) => (x === null ? t("model.unknown") : signed(x))));
  }
  const head = h("tr", {}, h("th", { scope: "col" }, h("span", { class: "visually-hidden" }, t("model.text"))), COLUMNS.map((column) => h("th", { scope: "col", title: t(`model.measure-said.${column}`) }, t(`model.measure.${column}`))));
  return h("table", { class: "head-statistics" }, h("thead", {}, head), h("tbody", {}, rows));
}
