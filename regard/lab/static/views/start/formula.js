// Step 4 of Start: one row of the translator's attention in numbers: similarity, scaling, softmax, weighted sum.

import { figure } from "../../kit/figure.js";
import { m, math } from "../../kit/math.js";
import { Numbers } from "../trace/numbers.js";

const LAYERS = [1, 2];
const SHOWN = 3; // terms of a dot product that are written out

export function show(root, initial, kit, story) {
  const { h, t, number, put } = kit;
  let state = initial;
  let data = null;
  let question = "";
  let key = null; // the selected row
  let closed = false;

  const words = h("div", { class: "start-chips formula-words", role: "group", "aria-label": t("start.formula.words") });
  const heads = kit.choiceField({ label: t("start.formula.head"), value: "2 3", options: [], onchange: (value) => kit.go({ layer: Number(value.split(" ")[0]), head: Number(value.split(" ")[1]) }) });
  const waiting = h("p", { class: "waiting", role: "status", hidden: true }, t("start.translator.waiting"));
  const asked = h("p", { class: "formula-question" });
  const place = h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": t("start.formula.table") });
  const worked = h("div", { class: "formula-worked", "aria-live": "polite" });
  const link = h("a", {}, t("start.formula.trace"));
  put(
    root,
    h("p", { class: "start-lead" }, t("start.formula.lead")),
    h(
      "div",
      { class: "start-two formula-two" },
      h("section", { class: "card formula-card" }, asked, h("div", { class: "formula-top" }, words, heads.element), waiting, place, worked),
      h(
        "div",
        { class: "start-features" },
        h(
          "section",
          { class: "card formula-whole" },
          h("div", { class: "whole" }, math(m.text("softmax"), m.o("("), m.frac(m.row("q", m.sup("K", m.o("⊤"))), m.sqrt(m.sub("d", "k"))), m.o(")"), "V")),
          h("ol", { class: "formula-stages" }, [1, 2, 3, 4].map((n) => h("li", {}, h("strong", {}, t(`start.formula.stage.${n}`)), " ", kit.rich(t(`start.formula.said.${n}`))))),
        ),
        h("section", { class: "card" }, h("dl", { class: "roles" }, ["query", "key", "value"].flatMap((role) => [h("dt", { class: role }, t(`start.role.${role}`)), h("dd", {}, t(`start.formula.${role}`))]))),
      ),
    ),
    h("p", { class: "start-moral" }, t("start.formula.moral"), " ", link),
  );
  const at = () => ({
    h: Math.min(Math.max(1, Math.floor(state.head)), data.heads) - 1,
    i: Math.min(Math.max(0, Math.floor(state.word)), data.queries.length - 1),
  });

  /** All numbers of the row: the query, its keys and values, and each stage of the computation. */
  function row() {
    const { h: head, i } = at();
    const of = (step, symbol) => data.of(step, symbol)[head];
    return {
      word: data.queries[i],
      q: of("split", "Q")[i],
      keys: of("split", "K"),
      values: of("split", "V"),
      scores: of("scores")[i],
      scaled: of("scale")[i],
      most: of("maximum")[i],
      grown: of("exponentials")[i],
      sum: of("sum")[i],
      weights: of("weights")[i],
      output: of("context")[i],
      root: Math.sqrt(data.d_k),
    };
  }

  const strip = (values, most) => {
    const canvas = kit.thumbnail([values], { kind: "signed", most });
    canvas.style.width = "100%";
    canvas.style.height = "1rem";
    return h("span", { class: "vector" }, canvas);
  };
  const largest = (rows) => Math.max(...rows.flat().map(Math.abs), 1e-12);

  function draw() {
    const r = row();
    const { i, h: head } = at();
    const best = r.weights.indexOf(Math.max(...r.weights));
    if (key === null || key >= r.weights.length) key = best;
    put(words, data.queries.map((word, n) => h("button", { type: "button", class: "small", lang: "zh-Hans", "aria-pressed": String(n === i), dataset: { word: String(n) }, onclick: () => ((key = null), kit.go({ word: n })) }, word)));
    put(heads.input, LAYERS.flatMap((layer) => Array.from({ length: data.heads }, (_, n) => h("option", { value: `${layer} ${n + 1}` }, t("start.formula.layer-head", { layer, head: n + 1 })))));
    heads.set(`${state.layer} ${head + 1}`);
    put(asked, t("start.formula.question", { word: r.word }), " ", h("strong", {}, t("start.formula.answer", { key: data.keys[best], weight: number(r.weights[best], 3) })));
    link.href = kit.link("trace", { weights: `cross-${layer()}`, text: state.text, step: "softmax", head, cell: [i, best] });
    const [wide, tall] = [largest([r.q, ...r.keys]), largest([...r.values, r.output])];
    const cell = (value, decimals = 3, name = null) => h("td", { dataset: name ? { [name]: String(value) } : {} }, number(value, decimals));
    put(
      place,
      h(
        "table",
        { class: "formula-table" },
        h(
          "thead",
          {},
          h("tr", {}, [t("start.formula.column.word"), t("start.formula.column.key"), h("span", {}, "① ", math("q", m.o("·"), "k")), h("span", {}, "② ", math(m.o("÷"), m.sqrt(data.d_k))), h("span", {}, "③ ", math(m.sup("e", m.row("s", "−", m.text("max"))))), h("span", {}, "③ ", math(m.o("÷"), m.o("Σ"))), h("span", {}, "④ ", t("start.formula.column.value"))].map((title, n) => h("th", { scope: "col", class: `column-${n}` }, title))),
        ),
        h(
          "tbody",
          {},
          h("tr", { class: "query-row" }, h("th", { scope: "row", lang: "zh-Hans" }, `q: ${r.word}`), h("td", {}, strip(r.q, wide)), h("td", { colspan: 4, class: "faint" }, t("start.formula.query-row", { width: data.d_k })), h("td", {})),
          data.keys.map((name, j) =>
            h(
              "tr",
              { class: j === key ? "here" : "", onpointerover: () => pick(j), onclick: () => pick(j) },
              h("th", { scope: "row" }, h("button", { type: "button", class: "quiet small", "aria-pressed": String(j === key), onfocus: () => pick(j) }, name)),
              h("td", {}, strip(r.keys[j], wide)),
              cell(r.scores[j], 2, "score"),
              cell(r.scaled[j], 2),
              cell(r.grown[j], 4),
              h("td", { dataset: { weight: String(r.weights[j]) }, class: "weight-cell" }, h("span", { class: "weight-bar", "aria-hidden": "true", style: { width: `${100 * r.weights[j]}%` } }), h("span", {}, number(r.weights[j], 3))),
              h("td", {}, strip(r.values[j], tall)),
            ),
          ),
        ),
        h(
          "tfoot",
          {},
          h("tr", {}, h("th", { scope: "row" }, t("start.formula.total")), h("td", {}), h("td", {}), h("td", {}), h("td", { dataset: { sum: String(r.sum) } }, `Σ ${number(r.sum, 4)}`), h("td", {}, number(r.weights.reduce((a, b) => a + b), 3)), h("td", { class: "output-cell" }, strip(r.output, tall))),
        ),
      ),
    );
    drawWorked(r);
  }

  /** The selected row with its numbers written out, and the first number of the output. */
  function drawWorked(r) {
    const terms = r.q.map((x, n) => [x, r.keys[key][n]]);
    const some = terms.slice(0, SHOWN);
    const mixed = r.weights.map((w, j) => [w, r.values[j][0], j]).sort((a, b) => b[0] - a[0]).slice(0, SHOWN);
    const product = ([a, b], n) => math(...(n ? ["+"] : []), m.factor(number(a, 2)), "×", m.factor(number(b, 2)));
    put(
      worked,
      h("h3", {}, t("start.formula.worked", { word: r.word, key: data.keys[key] })),
      h("p", { class: "pieces" }, h("b", {}, "①"), some.map(product), math("+", m.o("…")), math(m.o("="), m.mark("result", number(r.scores[key], 2)))),
      h("p", { class: "pieces" }, h("b", {}, "②"), math(m.frac(number(r.scores[key], 2), m.row(m.sqrt(data.d_k))), m.o("="), m.mark("result", number(r.scaled[key], 2)))),
      h("p", { class: "pieces" }, h("b", {}, "③"), math(m.sup("e", m.row(number(r.scaled[key], 2), "−", m.factor(number(r.most, 2)))), m.o("≈"), number(r.grown[key], 4)), math(m.frac(number(r.grown[key], 4), number(r.sum, 4)), m.o("≈"), m.mark("result", number(r.weights[key], 3)))),
      h("p", { class: "pieces" }, h("b", {}, "④"), h("span", {}, t("start.formula.first-number")), mixed.map(([w, v], n) => product([w, v], n)), math("+", m.o("…")), math(m.o("≈"), m.mark("result", number(r.output[0], 2)))),
    );
  }

  function pick(j) {
    if (j === key || !data) return;
    key = j;
    place.querySelectorAll("tbody tr:not(.query-row)").forEach((tr, n) => {
      tr.classList.toggle("here", n === key);
      tr.querySelector("button").setAttribute("aria-pressed", String(n === key));
    });
    drawWorked(row());
  }

  const layer = () => (LAYERS.includes(state.layer) ? state.layer : 2);

  async function ask() {
    const wanted = JSON.stringify([state.text, layer()]);
    if (wanted === question && data) {
      draw();
      return;
    }
    question = wanted;
    const slow = setTimeout(() => (waiting.hidden = false), 250);
    try {
      const answer = await story.cross.layer(state.text, layer());
      if (closed || wanted !== question) return;
      data = new Numbers(answer);
      draw();
    } catch (error) {
      if (!closed) kit.failed(error);
    } finally {
      clearTimeout(slow);
      waiting.hidden = true;
    }
  }

  ask();
  return {
    update(next) {
      state = next;
      ask();
    },
    unmount() {
      closed = true;
    },
    picture() {
      if (!data) throw new Error(t("start.translator.waiting"));
      const r = row();
      const values = [r.scores, r.scaled, r.grown, r.weights];
      return { title: t("start.formula.question", { word: r.word }), note: state.text, drawings: [figure({ matrices: [{ name: "q", values, rows: ["q·k", "÷ √d", "exp", "weight"], columns: data.keys, kind: "signed" }] })] };
    },
  };
}
