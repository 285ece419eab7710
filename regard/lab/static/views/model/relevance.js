// The learner's text with each token coloured by its relevance for the prediction.

import { css, inkOn, weightColour } from "../../kit/colour.js";
import { h } from "../../kit/dom.js";
import { number, t } from "../../kit/text.js";
import { shown } from "./names.js";

/** relevance({ kind, tokens, values }) → elements: a heading, an explanation and the coloured tokens. */
export function relevance({ kind, tokens, values }) {
  const most = Math.max(...values, 1e-12);
  const token = (name, i) => {
    const colour = weightColour(0.04 + 0.8 * Math.max(0, values[i] / most));
    const said = t("model.relevance-of", { token: shown(name), value: number(values[i], 3) });
    return h("span", { class: "relevant-token", role: "listitem", title: said, "aria-label": said, dataset: { value: String(values[i]) }, style: { background: css(colour), color: inkOn(colour) } }, shown(name));
  };
  return [h("h3", {}, t("model.relevance")), h("p", { class: "remark" }, t(`model.relevance-said.${kind}`)), h("p", { class: "relevant-tokens", role: "list" }, tokens.map(token))];
}
