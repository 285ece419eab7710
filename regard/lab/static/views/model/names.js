// Display names of the attention calls of known models.

import { t } from "../../kit/text.js";

/** "encoder.layers.1.attention" → Encoder 2, in the language of the page; other names stay as they are. */
export function callName(name) {
  const place = name.match(/(\d+)/);
  const n = place ? Number(place[1]) + 1 : 1;
  if (/^encoder\.layers\./.test(name)) return t("model.call.encoder", { n });
  if (/^decoder\.layers\..*cross$/.test(name)) return t("model.call.cross", { n });
  if (/^decoder\.layers\./.test(name)) return t("model.call.decoder", { n });
  return place ? t("model.call.layer", { n }) : name;
}

export const headName = (call, head) => t("model.head-of", { call: callName(call), head: head + 1 });

/** Return a token with visible signs for spaces and line ends. */
export const shown = (token) => (token === " " ? "␣" : token.replaceAll("\n", "⏎").trim() || token);
