// What the doctor says: what looks wrong and where, or that nothing does.

import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { callName, headName, shown } from "./names.js";

const MOST = 12;

export function findings(found, calls, onpick) {
  if (found.length === 0) return [h("p", { class: "well" }, t("model.well")), h("p", { class: "remark" }, t("model.checked"))];
  const facts = (one) => ({ query: shown(one.query ?? ""), key: shown(one.key ?? ""), weight: one.weight === null ? "" : number(one.weight, 3) });
  const where = (one) => (one.head === null ? callName(calls[one.call].name) : headName(calls[one.call].name, one.head));
  return [
    h(
      "ul",
      { class: "findings" },
      found.slice(0, MOST).map((one) =>
        h("li", { dataset: { what: one.what } }, h("button", { type: "button", class: "small", onclick: () => onpick(one.call, one.head ?? 0) }, where(one)), h("span", {}, t(`model.finding.${one.what}`, facts(one)))),
      ),
    ),
    found.length > MOST ? h("p", { class: "remark" }, t("model.more", { count: found.length - MOST })) : null,
  ];
}
