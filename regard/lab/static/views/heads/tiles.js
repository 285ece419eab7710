// Tiles of all heads: each with a small picture that selects the head, and a switch that silences it.

import { h, put } from "../../kit/dom.js";
import { thumbnail } from "../../kit/heatmap.js";
import { number, t } from "../../kit/text.js";

/** Tiles of heads, one row per layer. → { element, show({ maps, chosen, silent, entropy }) } */
export function tiles(layers, heads, { onpick, onswitch, named }) {
  const all = [];
  const rows = Array.from({ length: layers }, (_, layer) =>
    h(
      "div",
      { class: "tile-row", role: "group", "aria-label": layers > 1 ? t("heads.layer-n", { n: layer + 1 }) : t("heads.all") },
      layers > 1 ? h("span", { class: "tile-layer" }, t("heads.layer-n", { n: layer + 1 })) : null,
      Array.from({ length: heads }, (_, head) => {
        const picture = h("span", { class: "tile-picture" });
        const about = h("span", { class: "tile-about", title: t("heads.entropy-said"), "aria-hidden": "true" });
        const description = h("span", { class: "visually-hidden" });
        const pick = h("button", { type: "button", class: "tile-pick", dataset: { layer, head }, onclick: () => onpick(layer, head) }, picture, h("span", { class: "tile-name" }, t("heads.head-n", { n: head + 1 }), description), about);
        const turn = h("button", { type: "button", class: "tile-switch", role: "switch", dataset: { layer, head }, "aria-label": `${named(layer, head)}: ${t("heads.heard")}`, title: t("heads.heard"), onclick: () => onswitch(layer, head) });
        const tile = h("div", { class: "tile" }, pick, turn);
        all.push({ layer, head, tile, picture, about, description, pick, turn });
        return tile;
      }),
    ),
  );
  return {
    element: h("div", { class: "tiles" }, rows),
    show({ maps, chosen, silent, entropy }) {
      for (const { layer, head, tile, picture, about, description, pick, turn } of all) {
        const here = layer === chosen.layer && head === chosen.head;
        const off = silent(layer, head);
        put(picture, thumbnail(maps[layer][head], { size: 58 }));
        about.textContent = number(entropy[layer][head], 2);
        description.textContent = `, ${t("heads.entropy", { nats: number(entropy[layer][head], 2) })}${off ? `, ${t("heads.silent")}` : ""}`;
        pick.setAttribute("aria-pressed", String(here));
        turn.setAttribute("aria-checked", String(!off));
        tile.classList.toggle("chosen", here);
        tile.classList.toggle("off", off);
      }
    },
  };
}
