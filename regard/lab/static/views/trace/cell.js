// Formulas of each step in MathML: in symbols, and with the numbers of the selected cell.
// A formula with numbers is a list of pieces, so that a long sum can wrap.

import { m, math } from "../../kit/math.js";
import { number, t } from "../../kit/text.js";
import { subscript } from "./numbers.js";

const T = () => m.o("⊤");
const dk = () => m.sqrt(m.sub("d", "k"));

/** The formula of a step in symbols. */
export function letters(step, state, data) {
  const low = state.which.toLowerCase();
  const bias = (name) => (data.inputs[`b_${name}`] ? ["+", m.sub("b", name)] : []);
  const scaled = () => (state.temperature === 1 ? dk() : m.row(state.scale ? [dk(), "·"] : [], "τ"));
  switch (step) {
    case "project":
      return math(state.which, "=", data.inputs.C && low !== "q" ? "C" : "X", m.sub("W", low), ...bias(low));
    case "split":
      return math(m.sub("Q", "h"), "=", m.sub("Q", m.row(":", ",", m.brackets("h", "−", 1), m.sub("d", "k"), "+", 1, "…", "h", m.sub("d", "k"))));
    case "scores":
      return math("S", "=", "Q", m.sup("K", T()));
    case "scale":
      return state.scale || state.temperature !== 1 ? math(m.frac("S", scaled())) : math("S", m.o("·"), 1);
    case "mask":
      return data.visible
        ? math(m.sub("M", m.row("i", "j")), "=", m.cases([m.row(m.sub("S", m.row("i", "j")), m.o("/"), dk()), m.text(t("trace.mask.seen"))], ["−∞", m.text(t("trace.mask.hidden"))]))
        : math("M", "=", "S", m.o("/"), dk());
    case "softmax":
      return math(
        m.sub("A", m.row("i", "j")),
        "=",
        m.frac(
          m.sup("e", m.row(m.sub("M", m.row("i", "j")), "−", m.sub("m", "i"))),
          m.row(m.sum("k"), m.sup("e", m.row(m.sub("M", m.row("i", "k")), "−", m.sub("m", "i")))),
        ),
      );
    case "context":
      return math("C", "=", "A", "V");
    case "merge":
      return math("C", "=", m.o("["), m.sub("C", 1), m.o("|"), m.o("…"), m.o("|"), m.sub("C", "H"), m.o("]"));
    case "output":
      return math("O", "=", "C", m.sub("W", "o"), ...bias("o"));
    default:
      return math();
  }
}

/** The name of a matrix with its subscript or superscript: Q₁, W_q, Kᵀ. */
function sign(name) {
  const [, base, below, turned] = name.match(/^(.)_?([a-zA-Z₀-₉]*)(ᵀ?)/u);
  const number = below.replace(/[₀-₉]/g, (digit) => "₀₁₂₃₄₅₆₇₈₉".indexOf(digit));
  const letter = below ? m.sub(base, number) : m.i(base);
  return turned ? m.sup(letter, T()) : letter;
}

const MOST_TERMS = 8;

/** A dot product: pieces of the formula, and the individual products. */
function dot(left, a, b, result, bias) {
  const products = a.map((x, i) => x * b[i]);
  const shown = a.length > MOST_TERMS ? MOST_TERMS - 1 : a.length;
  const pieces = [math(left, "=")];
  for (let i = 0; i < shown; i++) pieces.push(math(...(i ? ["+"] : []), m.factor(number(a[i])), "×", m.factor(number(b[i]))));
  if (shown < a.length) {
    const last = a.length - 1;
    pieces.push(math("+", m.o("…")), math("+", m.factor(number(a[last])), "×", m.factor(number(b[last]))));
  }
  if (bias !== undefined) pieces.push(math("+", m.factor(number(bias))));
  pieces.push(math(m.o("≈"), m.mark("result", number(result))));
  return { pieces, products: bias === undefined ? products : [...products, bias], result };
}

/** The formula of cell (i, j) of a matrix of the scene, with its numbers: { pieces, products?, row? }. */
export function cellFormula(step, key, i, j, data, state, scene) {
  const h = Math.min(state.head, data.heads - 1);
  const value = (name) => scene.matrices[name].values[i][j];
  const { name } = scene.matrices[key];
  const { rows, columns } = scene.matrices[key];
  const at = (symbol, row, column) => m.row(sign(symbol), m.brackets(m.text(row), m.o(","), m.text(column)));
  const plain = { pieces: [math(at(name, rows[i], columns[j]), "="), math(m.mark("result", number(scene.matrices[key].values[i][j])))] };

  if (scene.layout === "product") {
    if (key !== scene.result) return plain;
    const [a, b] = Object.values(scene.matrices);
    return dot(at(name, rows[i], columns[j]), a.values[i], b.values.map((row) => row[j]), value(key), scene.bias?.[j]);
  }
  if (key === "before" && (step === "scale" || step === "mask")) return plain;
  switch (step) {
    case "split": {
      const column = h * data.d_k + j + 1;
      const symbol = name[0];
      return { pieces: [math(at(name, rows[i], columns[j]), "="), math(at(symbol, rows[i], column), "="), math(m.mark("result", number(value(key))))] };
    }
    case "scale": {
      const before = data.of("scores")[h][i][j];
      const after = data.of("scale")[h][i][j];
      const below = [];
      if (state.scale) below.push(m.sqrt(data.d_k));
      if (state.scale && state.temperature !== 1) below.push("×");
      if (state.temperature !== 1) below.push(number(state.temperature, 2));
      if (!below.length) below.push(1);
      return { pieces: [math(m.frac(number(before), m.row(...below)), m.o("≈")), math(m.mark("result", number(after)))] };
    }
    case "mask": {
      const before = data.of("scale")[h][i][j];
      const after = data.of("mask")[h][i][j];
      return { pieces: [math(number(before), m.o("→")), math(m.mark("result", number(after)))], seen: after !== -Infinity, pair: { query: data.queries[i], key: data.keys[j] } };
    }
    case "softmax": {
      const masked = data.of("mask")[h][i];
      const maximum = data.of("maximum")[h][i];
      const sum = data.of("sum")[h][i];
      const weights = data.of("weights")[h][i];
      if (key === "maximum") return { pieces: [math("max", "=", m.mark("result", number(maximum)))], row: weights, query: i };
      if (key === "sum") {
        const grown = data.of("exponentials")[h][i];
        const shown = grown.length > MOST_TERMS ? [...grown.slice(0, MOST_TERMS - 1).map((x) => number(x)), "…"] : grown.map((x) => number(x));
        return { pieces: [...shown.map((x, n) => math(...(n ? ["+"] : []), x)), math(m.o("≈"), m.mark("result", number(sum)))], row: weights, query: i };
      }
      if (sum === 0) return { pieces: [math(m.mark("result", 0))], row: weights, query: i, empty: true };
      const grown = m.sup("e", m.row(number(masked[j]), "−", m.factor(number(maximum))));
      if (key === "before") return { ...plain, row: weights, query: i, at: j };
      if (key === "grown") return { pieces: [math(grown, m.o("≈"), m.mark("result", number(data.of("exponentials")[h][i][j])))], row: weights, query: i, at: j };
      return { pieces: [math(m.frac(grown, number(sum)), m.o("=")), math(m.frac(number(data.of("exponentials")[h][i][j]), number(sum)), m.o("≈"), m.mark("result", number(weights[j])))], row: weights, query: i, at: j };
    }
    case "merge": {
      const column = key === "before" ? h * data.d_k + j : j;
      const from = Math.floor(column / data.d_k);
      return {
        pieces: [
          math(at("C", rows[i], column + 1), "="),
          math(at(data.heads > 1 ? `C${subscript(from + 1)}` : "C", rows[i], (column % data.d_k) + 1), "="),
          math(m.mark("result", number(data.of("merge")[i][column]))),
        ],
      };
    }
    default:
      return plain;
  }
}
