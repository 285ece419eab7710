// Access to a trace as the server sends it (regard.trace, version 1), by step and head. Strings such as "-Infinity" become numbers.

const real = (x) => (Array.isArray(x) ? (typeof x[0] === "number" && x.every((y) => typeof y === "number") ? x : x.map(real)) : Number(x));

export class Numbers {
  constructor(trace) {
    this.trace = trace;
    this.queries = named(trace.tokens.queries);
    this.keys = named(trace.tokens.keys);
    this.heads = trace.heads;
    this.scale = Number(trace.scale);
    this.cache = new Map();
    this.inputs = Object.fromEntries(trace.inputs.map((part) => [part.symbol, part.values]));
    this.width = this.inputs.X[0].length;
    this.d_k = this.width / this.heads;
    this.visible = trace.mask ? { shape: trace.mask.shape, values: trace.mask.visible, text: trace.mask.text } : null;
  }

  /** The values of a step for all heads. */
  of(step, symbol) {
    const key = `${step} ${symbol ?? ""}`;
    if (!this.cache.has(key)) {
      const { parts } = this.trace.steps.find((one) => one.name === step);
      const part = symbol ? parts.find((one) => one.symbol === symbol) : parts[0];
      this.cache.set(key, real(part.values));
    }
    return this.cache.get(key);
  }

  sees(head, i, j) {
    return this.of("mask")[head][i][j] !== -Infinity;
  }
}

/** Names of positions: tokens, with a number if a token occurs more than once. */
function named(tokens) {
  const count = new Map();
  for (const token of tokens) count.set(token, (count.get(token) ?? 0) + 1);
  const counts = new Map();
  return tokens.map((token) => {
    if (count.get(token) === 1) return token;
    counts.set(token, (counts.get(token) ?? 0) + 1);
    return token + subscript(counts.get(token));
  });
}

export const subscript = (n) => String(n).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);

export const transposed = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));

/** Effective number of keys of a row of weights: the exponential of its entropy. */
export function attended(row) {
  let entropy = 0;
  for (const w of row) if (w > 0) entropy -= w * Math.log(w);
  return row.some((w) => w > 0) ? Math.exp(entropy) : 0;
}
