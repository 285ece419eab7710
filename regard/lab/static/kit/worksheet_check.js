// Checking a drill in the static edition, which has no server: typed numbers are compared with the right ones.

const TOKEN = /\s*(\d+\.?\d*|\.\d+|ln|e\^|∞|[-+*/()%])/y;

/** Return the value of a number as learners type it: 2/3, 0.67, ln 2, 2 ln 3, e^2, −∞, 50%; null if it cannot be read. */
export function readNumber(typed) {
  const text = typed.replace(/[−–]/g, "-").replace(/[×·]/g, "*").replace(/log/gi, "ln").replace(/inf(inity)?/gi, "∞").trim();
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const found = TOKEN.exec(text);
    if (!found) return null;
    tokens.push(found[1]);
  }
  let at = 0;
  const accept = (...wanted) => (wanted.includes(tokens[at]) ? tokens[at++] : null);
  const factor = () => {
    if (accept("-")) return -factor();
    if (accept("ln")) return Math.log(factor());
    if (accept("e^")) return Math.exp(factor());
    if (accept("∞")) return Infinity;
    if (accept("(")) {
      const inside = sum();
      return accept(")") ? inside : NaN;
    }
    const number = /^[\d.]/.test(tokens[at] ?? "") ? Number(tokens[at++]) : NaN;
    return accept("%") ? number / 100 : number;
  };
  const product = () => {
    let value = factor();
    for (;;) {
      if (accept("/")) value /= factor();
      else if (accept("*") || ["ln", "e^", "("].includes(tokens[at])) value *= factor();
      else return value;
    }
  };
  const sum = () => {
    let value = product();
    for (let sign = accept("+", "-"); sign; sign = accept("+", "-")) value += sign === "+" ? product() : -product();
    return value;
  };
  const value = sum();
  return at < tokens.length || Number.isNaN(value) ? null : value;
}

/** Return whether a typed number is right; a number with a decimal point may be rounded, as in regard.learn. */
function same(typed, right) {
  const [x, y] = [readNumber(typed), readNumber(right)];
  if (!Number.isFinite(x) || !Number.isFinite(y)) return x === y;
  return Math.abs(x - y) <= (typed.includes(".") || right.includes(".") ? 0.01 : 1e-9) * Math.max(1, Math.abs(y));
}

/** Return the results of the steps in the form of the server; `blank` is the server's answer without any step. */
export function checkHere(blank, answers, kit) {
  const results = blank.results.map((result) => {
    const typed = answers[result.step];
    if (!typed) return result;
    const says = (text) => ({ [kit.language()]: text });
    if (typed.flat().some((text) => readNumber(text) === null)) return { ...result, outcome: "unread", passed: false, says: says(kit.t("practice.how-to-write")) };
    const cells = result.true.flatMap((row, i) => row.map((right, j) => [i, j, right])).filter(([i, j, right]) => !same(typed[i]?.[j] ?? "", right));
    if (cells.length === 0) return { ...result, outcome: "right", passed: true };
    return { ...result, outcome: "wrong", passed: false, cells: cells.map(([i, j]) => [i, j]), says: says(kit.t("static.checked")) };
  });
  return { results, passed: results.every((one) => one.passed) };
}
