// Effect of hidden pairs and silenced heads on the output: one line per token, with bars and exact numbers.

import { h, put } from "../../kit/dom.js";
import { number } from "../../kit/text.js";

const value = (kind, x, decimals = 3) => h("span", { class: `moved-value ${kind}`, dataset: { value: String(x), kind } }, number(x, decimals));
const bar = (kind, share) => h("span", { class: `moved-bar ${kind}` }, h("span", { class: "fill", style: { width: `${Math.min(100, 100 * share)}%` } }));

/** Two bars per token: how far its output vector moved because of the mask and because of silenced heads, relative to its length. */
export function outputChanges(list, { tokens, length, by_mask, by_heads, empty }) {
  const most = Math.max(...length, ...by_mask, ...by_heads, 1e-9);
  put(
    list,
    tokens.map((token, i) =>
      h(
        "li",
        { class: empty.includes(i) ? "empty" : "" },
        h("span", { class: "moved-name" }, token),
        h("span", { class: "moved-bars" }, bar("by-mask", by_mask[i] / most), bar("by-heads", by_heads[i] / most)),
        h("span", { class: "moved-values" }, value("by-mask", by_mask[i]), value("by-heads", by_heads[i])),
      ),
    ),
  );
}

/** For a translator: the probability of each output token, with all heads and without the silenced ones. */
export function probabilities(list, { queries, before, after }, off) {
  put(
    list,
    queries.map((token, i) =>
      h(
        "li",
        { class: after[i] < 0.5 * before[i] ? "lost" : "" },
        h("span", { class: "moved-name" }, token === " " ? "␣" : token),
        h("span", { class: "moved-bars" }, bar("before", before[i]), off ? bar("after", after[i]) : null),
        h("span", { class: "moved-values" }, value("before", before[i]), off ? value("after", after[i]) : null),
      ),
    ),
  );
}
