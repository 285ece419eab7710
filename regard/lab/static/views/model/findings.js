// What the doctor reports of a run: possible defects and the heads that have them, what was checked, what was not seen.

import { h } from "../../kit/dom.js";
import { hasText, number, t } from "../../kit/text.js";
import { callName, headName, shown } from "./names.js";

const MOST = 12;

/** findings(run, onpick) → elements; `run` is the server's answer for one text. */
export function findings({ calls, findings: list, checked, unchecked, missed, notes }, onpick) {
  const facts = (one) => ({ query: shown(one.query ?? ""), key: shown(one.key ?? ""), weight: one.weight === null ? "" : number(one.weight, 3) });
  const where = (one) => (one.head === null ? callName(calls[one.call].name) : headName(calls[one.call].name, one.head));
  // A check or a finding without a text here has an English one.
  const check = (name) => (hasText(`model.check.${name.replaceAll(" ", "-")}`) ? t(`model.check.${name.replaceAll(" ", "-")}`) : name);
  const said = (one) => (hasText(`model.finding.${one.what}`) ? t(`model.finding.${one.what}`, facts(one)) : one.message);
  const finding = (one) => h("li", { dataset: { what: one.what } }, h("button", { type: "button", class: "small", onclick: () => onpick(one.call, one.head ?? 0) }, where(one)), h("span", {}, said(one)));
  // Modules have names of the program; reasons and notes are written by the watcher in English.
  const remarks = [
    ...missed.map(({ module, reason }) => h("li", { class: "missed" }, t("model.missed"), h("code", {}, module || t("model.whole")), h("span", { lang: "en" }, reason))),
    ...notes.map((note) => h("li", {}, t("model.note"), h("span", { lang: "en" }, note))),
    ...unchecked.map(({ call, check: name, reason }) => h("li", {}, t("model.unchecked", { check: check(name), call: callName(call) }), h("span", { lang: "en" }, reason))),
  ];
  return [
    list.length === 0 ? h("p", { class: "well" }, t("model.well")) : h("ul", { class: "findings" }, list.slice(0, MOST).map(finding)),
    list.length > MOST ? h("p", { class: "remark" }, t("model.more", { count: list.length - MOST })) : null,
    remarks.length ? h("ul", { class: "model-remarks" }, remarks) : null,
    h("p", { class: "remark" }, t("model.checked", { checks: checked.map(check).join(t("model.comma")) })),
  ];
}
