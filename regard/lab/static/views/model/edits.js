// Edits of the attention: heads and edges that are removed or weighted, and how the model's prediction changes.
//
// An edit is [call, head, factor] for a head, or [call, head, query, key, factor] for an edge, as the server expects it.

import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { probabilities } from "../heads/output_changes.js";
import { headName, shown } from "./names.js";

export const FACTORS = [0, 0.5, 1, 2];

const sameTarget = (a, b) => a.length === b.length && a.slice(0, -1).every((value, i) => value === b[i]);

/** Return the factor of a head or an edge; 1 if it is not edited. */
export const factorOf = (edits, target) => edits.find((edit) => sameTarget(edit, [...target, 0]))?.at(-1) ?? 1;

/** Return the edits with a new factor for a head or an edge; a factor of 1 removes the edit. */
export function withFactor(edits, target, factor) {
  const rest = edits.filter((edit) => !sameTarget(edit, [...target, 0]));
  return factor === 1 ? rest : [...rest, [...target, factor]];
}

/** factors(label, value, onpick) → buttons for the factors, the current one pressed. */
export const factors = (label, value, onpick) =>
  h(
    "div",
    { class: "segment factors", role: "group", "aria-label": label },
    FACTORS.map((factor) => h("button", { type: "button", class: "small", dataset: { factor }, "aria-pressed": String(factor === value), onclick: () => onpick(factor) }, t(`model.factor.${String(factor).replace(".", "-")}`))),
  );

/** editList(edits, calls, onchange) → one line per edit, with a button that removes it. */
export function editList(edits, calls, onchange) {
  const name = ([call, head, ...rest]) => {
    const factor = number(rest.at(-1), 1);
    const place = headName(calls[call].name, head);
    if (rest.length === 1) return rest[0] === 0 ? t("model.edit.head-off", { head: place }) : t("model.edit.head", { head: place, factor });
    const [query, key] = [shown(calls[call].queries[rest[0]]), shown(calls[call].keys[rest[1]])];
    return rest[2] === 0 ? t("model.edit.edge-off", { head: place, query, key }) : t("model.edit.edge", { head: place, query, key, factor });
  };
  const known = edits.filter(([call, head, ...rest]) => calls[call]?.heads[head] && (rest.length === 1 || (calls[call].queries[rest[0]] !== undefined && calls[call].keys[rest[1]] !== undefined)));
  return h(
    "ul",
    { class: "edits" },
    known.map((edit) => h("li", {}, h("span", {}, name(edit)), h("button", { type: "button", class: "small quiet", "aria-label": t("model.edit.remove", { edit: name(edit) }), onclick: () => onchange(edits.filter((other) => other !== edit)) }, "×"))),
  );
}

/** predictionTable({ kind, before, after, similarity, rows }, edited) → elements. */
export function predictionTable({ kind, before, after, similarity, rows }, edited) {
  const list = h("ul", { class: "moved" });
  probabilities(list, { queries: rows.map(([name]) => shown(name)), before: rows.map((row) => row[1]), after: rows.map((row) => row[2]) }, edited);
  const text = (words) => h("strong", { lang: "zh-Hans" }, words || "∅");
  const summary = {
    translation: () => [h("p", { class: "prediction before", dataset: { text: before } }, h("span", { class: "remark" }, t("model.before")), text(before)), edited ? h("p", { class: `prediction after${after === before ? "" : " changed"}`, dataset: { text: after } }, h("span", { class: "remark" }, t("model.after")), text(after)) : null],
    next: () => h("p", { class: "remark" }, t("model.prediction-said.next")),
    embedding: () => [h("p", { class: "remark" }, t("model.prediction-said.embedding")), edited ? h("p", { class: "prediction after", dataset: { value: String(similarity) } }, t("model.similarity", { value: number(similarity, 4) })) : null],
  }[kind]();
  return [summary, kind === "translation" ? h("p", { class: "remark" }, t("model.prediction-said.translation")) : null, kind === "embedding" && !edited ? null : list];
}
