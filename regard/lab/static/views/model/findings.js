// Findings of the doctor: possible defects and the heads that have them, or a message that there are none.

import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { callName, headName, shown } from "./names.js";

const MOST = 12;

export function findings(list, calls, onpick) {
  if (list.length === 0) return [h("p", { class: "well" }, t("model.well")), h("p", { class: "remark" }, t("model.checked"))];
  const facts = (one) => ({ query: shown(one.query ?? ""), key: shown(one.key ?? ""), weight: one.weight === null ? "" : number(one.weight, 3) });
  const where = (one) => (one.head === null ? callName(calls[one.call].name) : headName(calls[one.call].name, one.head));
  return [
    h(
      "ul",
      { class: "findings" },
      list.slice(0, MOST).map((one) =>
        h("li", { dataset: { what: one.what } }, h("button", { type: "button", class: "small", onclick: () => onpick(one.call, one.head ?? 0) }, where(one)), h("span", {}, t(`model.finding.${one.what}`, facts(one)))),
      ),
    ),
    list.length > MOST ? h("p", { class: "remark" }, t("model.more", { count: list.length - MOST })) : null,
  ];
}
