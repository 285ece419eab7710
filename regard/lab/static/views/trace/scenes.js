// What each step shows: its matrices, which of them is the result, what is highlighted for a selected cell, and which
// numbers can be edited. A scene is
//   { layout: "product" | "row", matrices: { key: spec of kit.matrix + edit(i, j) → [symbol, row, column] },
//     result: key, joints: { key: sign in front of it }, lights(key, i, j) → { key: what to highlight },
//     backwards: the keys in an order that begins with the result, bias: numbers added to each row of a product }

import { number } from "../../kit/text.js";
import { subscript, transposed } from "./numbers.js";

export const STEPS = ["project", "split", "scores", "scale", "mask", "softmax", "context", "merge", "output"];
export const IN_HEADS = new Set(["split", "scores", "scale", "mask", "softmax", "context", "merge"]);

export const PRODUCTS = new Set(["project", "scores", "context", "output"]);

const WIDEST = 12; // columns of features shown as a table; wider matrices show a part of their columns

const count = (n, from = 1) => Array.from({ length: n }, (_, i) => String(i + from));

export function scene(step, data, state, narrow = false) {
  const lens = { widest: narrow ? 6 : WIDEST, lens: narrow ? 6 : step === "split" ? 5 : 7 };
  const { queries, keys, d_k, width } = data;
  const L = queries.length;
  const S = keys.length;
  const h = Math.min(state.head, data.heads - 1);
  const at = data.heads > 1 ? subscript(h + 1) : "";
  const strip = count(d_k, h * d_k + 1);
  const hidden = (i, j) => !data.sees(h, i, j);
  const none = (x, i, j) => (hidden(i, j) ? "0" : number(x)); // exactly 0, not a small number
  const edited = (symbol) => {
    const places = new Set(state.edits.filter((edit) => edit[0] === symbol).map((edit) => `${edit[1]} ${edit[2]}`));
    return (row, column) => places.has(`${row} ${column}`);
  };
  const pairs = (name, values, more = {}) => ({ name, values, rows: queries, columns: keys, shape: `${L} × ${S}`, ...more });

  /** Q, K or V of this head, with editable numbers. */
  const head = (symbol, rows, turned = false) => {
    const values = data.of("split", symbol)[h];
    const changed = edited(symbol);
    const place = turned ? (i, j) => [symbol, j, h * d_k + i] : (i, j) => [symbol, i, h * d_k + j];
    return {
      name: `${symbol}${at}${turned ? "ᵀ" : ""}`,
      values: turned ? transposed(values) : values,
      rows: turned ? strip : rows,
      columns: turned ? rows : strip,
      shape: turned ? `${d_k} × ${rows.length}` : `${rows.length} × ${d_k}`,
      ...lens,
      edit: place,
      edited: (i, j) => changed(...place(i, j).slice(1)),
      strip: step === "split" && data.heads > 1 ? { values: data.of("project", symbol), from: h, of: data.heads } : null,
    };
  };

  switch (step) {
    case "project": {
      const symbol = state.which;
      const changed = edited(symbol);
      const low = symbol.toLowerCase();
      // Keys and values may come from another sentence.
      const [source, rows] = symbol === "Q" ? ["X", queries] : [data.inputs.C ? "C" : "X", keys];
      return product(
        { key: "X", name: source, values: data.inputs[source], rows, columns: count(width), shape: `${rows.length} × ${width}`, ...lens },
        { key: "W", name: `W_${low}`, values: data.inputs[`W_${low}`], rows: count(width), columns: count(width), shape: `${width} × ${width}`, ...lens },
        {
          key: "result",
          name: symbol,
          values: data.of("project", symbol),
          rows,
          columns: count(width),
          shape: `${rows.length} × ${width}`,
          edit: (i, j) => [symbol, i, j],
          edited: changed,
          ...lens,
        },
        data.inputs[`b_${low}`],
      );
    }
    case "split": {
      const all = { Q: head("Q", queries), K: head("K", keys), V: head("V", keys) };
      const matrices = narrow ? { [state.which]: all[state.which] } : all; // a phone has room for one of the three
      return row(matrices, narrow ? state.which : "Q", {}, (key, i, j) => ({ [key]: { cell: [i, j] } }));
    }
    case "scores":
      return product({ key: "Q", ...head("Q", queries) }, { key: "K", ...head("K", keys, true) }, { key: "result", ...pairs(`S${at}`, data.of("scores")[h]) });
    case "scale": {
      const same = (key, i, j) => ({ before: { cell: [i, j] }, result: { cell: [i, j] } });
      const before = data.of("scores")[h];
      return row({ before: pairs(`S${at}`, before), result: pairs(`S${at} / √d_k`, data.of("scale")[h], { most: largest(before) }) }, "result", { result: "→" }, same, ["result", "before"]);
    }
    case "mask": {
      const same = (key, i, j) => ({ before: { cell: [i, j] }, result: { cell: [i, j] } });
      const before = data.of("scale")[h];
      return row({ before: pairs(`S${at} / √d_k`, before), result: pairs(`M${at}`, data.of("mask")[h], { most: largest(before), hidden }) }, "result", { result: "→" }, same, ["result", "before"]);
    }
    case "softmax": {
      const masked = data.of("mask")[h];
      const column = (name, values, title) => ({ name, values: values.map((x) => [x]), rows: queries, columns: [title], shape: `${L}`, kind: "plain" });
      const matrices = {
        before: pairs(`M${at}`, masked, { hidden }),
        maximum: column("m", data.of("maximum")[h], "max"),
        grown: pairs(`E${at}`, data.of("exponentials")[h], { kind: "weights", hidden, text: none }),
        sum: column("Σ", data.of("sum")[h], "Σ"),
        result: pairs(`A${at}`, data.of("weights")[h], { kind: "weights", hidden, text: none }),
      };
      return row(matrices, "result", { maximum: "", grown: "→", sum: "", result: "→" }, (key, i, j) => {
        const single = key === "maximum" || key === "sum";
        const cell = single ? { rows: [i] } : { rows: [i], cell: [i, j] };
        return { before: cell, maximum: { cell: [i, 0] }, grown: cell, sum: { cell: [i, 0] }, result: cell };
      }, ["result", "grown", "sum", "before", "maximum"]);
    }
    case "context":
      return product(
        { key: "A", ...pairs(`A${at}`, data.of("weights")[h], { kind: "weights", hidden, text: none }) },
        { key: "V", ...head("V", keys) },
        { key: "result", name: `C${at}`, values: data.of("context")[h], rows: queries, columns: strip, shape: `${L} × ${d_k}`, ...lens },
      );
    case "merge": {
      const own = data.of("context")[h];
      const matrices = {
        before: { name: `C${at}`, values: own, rows: queries, columns: strip, shape: `${L} × ${d_k}`, ...lens },
        result: { name: "M", title: "[C₁ … C_H]", values: data.of("merge"), rows: queries, columns: count(width), shape: `${L} × ${width}`, ...lens },
      };
      if (data.heads === 1) matrices.result.title = "C";
      return row(matrices, "result", { result: "→" }, (key, i, j) => {
        const inside = key === "before" ? j : Math.floor(j / d_k) === h ? j - h * d_k : null;
        return {
          before: inside === null ? {} : { cell: [i, inside] },
          result: { columns: count(d_k, h * d_k).map(Number), cell: [i, key === "before" ? j + h * d_k : j] },
        };
      }, ["result", "before"]);
    }
    case "output": {
      const { W_o } = data.inputs;
      return product(
        { key: "M", name: "C", values: data.of("merge"), rows: queries, columns: count(width), shape: `${L} × ${width}`, ...lens },
        { key: "W", name: "W_o", values: W_o, rows: count(width), columns: count(width), shape: `${width} × ${width}`, ...lens },
        { key: "result", name: "O", values: data.of("output"), rows: queries, columns: count(width), shape: `${L} × ${width}`, ...lens },
        data.inputs.b_o,
      );
    }
    default:
      throw new Error(`no step ${step}`);
  }
}

function largest(values) {
  return Math.max(...values.flat().filter(Number.isFinite).map(Math.abs), 1e-12);
}

function row(matrices, result, joints, lights, backwards) {
  return { layout: "row", matrices, result, joints, lights, backwards };
}

/** C = A · B, plus a bias if there is one: a cell of C comes from a row of A and a column of B. */
function product(a, b, c, bias) {
  const matrices = { [a.key]: a, [b.key]: b, [c.key]: c };
  return {
    layout: "product",
    matrices,
    bias,
    result: c.key,
    joints: { [b.key]: "·", [c.key]: "=" },
    lights(key, i, j) {
      if (key === c.key) return { [a.key]: { rows: [i] }, [b.key]: { columns: [j] }, [c.key]: { cell: [i, j] } };
      if (key === a.key) return { [a.key]: { cell: [i, j] }, [b.key]: { rows: [j] }, [c.key]: { rows: [i] } };
      return { [a.key]: { columns: [i] }, [b.key]: { cell: [i, j] }, [c.key]: { columns: [j] } };
    },
  };
}
