// The view Geometry: a query and keys as arrows in 3D. Keys in the direction of the query get the weight; the query can be moved.

import { camera, draw as drawSpace, fit, SIZE } from "./geometry/space.js";

export const defaults = {
  text: "The cat sat on the mat",
  query: 1,
  temperature: 1,
  seed: 35, // a seed for which the keys point in clearly different directions
  vector: [],
  threshold: -1, // -1 means 1/S
  yaw: 32,
  pitch: 22,
};

/** Return a trace with another query or temperature: scores q·k, scaled by √3 τ, and their softmax. */
function moved(trace, vector, temperature) {
  const input = (symbol) => trace.inputs.find((one) => one.symbol === symbol).values;
  const query = vector.length ? vector : input("Q")[0];
  const scores = input("K").map((key) => key.reduce((sum, x, i) => sum + x * query[i], 0));
  const scale = scores.map((x) => x / (Math.sqrt(3) * temperature));
  const grown = scale.map((x) => Math.exp(x - Math.max(...scale)));
  const weights = grown.map((x) => x / grown.reduce((a, b) => a + b));
  const parts = { scores, scale, weights };
  return {
    ...trace,
    inputs: trace.inputs.map((one) => (one.symbol === "Q" ? { ...one, values: [query] } : one)),
    steps: trace.steps.map((step) => (step.name in parts ? { ...step, parts: [{ ...step.parts[0], values: [parts[step.name]] }] } : step)),
  };
}

const FAR = 4;
const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

export async function mount(root, initial, kit) {
  const { h, s, t, number, put } = kit;
  fit(root.clientWidth);
  let state = initial;
  let data = null; // { tokens, keys, query, dots, weights }
  let moving = null; // position of the query while it is dragged
  let asking = false;
  let waiting = null;
  let closed = false;

  const fields = {
    text: kit.sentenceField("/api/geometry", { label: t("geometry.sentence"), value: state.text, wide: false, onchange: kit.debounced((text) => go({ text, query: 0, vector: [] }), 120) }),
    query: kit.choiceField({ label: t("geometry.query"), value: "0", options: [], onchange: (i) => go({ query: Number(i), vector: [] }) }),
    temperature: kit.sliderField({ label: t("geometry.temperature"), value: state.temperature, min: 0.05, max: 20, log: true, format: (x) => number(x, 2), onchange: (x) => go({ temperature: Math.abs(x - 1) < 0.03 ? 1 : x }) }),
    seed: kit.numberField({ label: t("geometry.seed"), value: state.seed, min: 0, max: 4294967295, onchange: (seed) => go({ seed, vector: [] }) }),
  };
  const axes = [0, 1, 2].map((axis) =>
    kit.sliderField({
      label: t("geometry.axis", { n: axis + 1 }),
      value: 0,
      min: -FAR,
      max: FAR,
      step: 0.05,
      format: (x) => number(x, 2),
      onchange: (x) => {
        if (!data) return;
        const to = [...here()];
        to[axis] = x;
        move(to);
      },
    }),
  );
  const threshold = kit.sliderField({ label: t("geometry.threshold"), value: 0.1, min: 0, max: 1, step: 0.005, format: (x) => number(x, 3), onchange: (x) => go({ threshold: x }) });

  const hint = kit.freshId("hint");
  const picture = s("svg", {
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`,
    class: "space",
    tabindex: 0,
    role: "application",
    "aria-label": t("geometry.picture"),
    "aria-describedby": hint,
    "font-family": FONT,
  });
  const home = h("button", { type: "button", class: "small", onclick: () => go({ vector: [] }) }, t("geometry.home"));
  const turn = h("button", { type: "button", class: "small", onclick: () => go({ yaw: defaults.yaw, pitch: defaults.pitch }) }, t("geometry.turn"));
  const passed = h("p", { class: "passed", "aria-live": "polite" });
  const bars = h("ul", { class: "filter" });
  const numbers = h("div", { class: "geometry-numbers" });
  root.append(
    h("form", { class: "card geometry-controls", onsubmit: (event) => event.preventDefault() }, h("div", { class: "fields" }, Object.values(fields).map((field) => field.element))),
    h(
      "div",
      { class: "geometry-main" },
      h(
        "section",
        { class: "card geometry-space", "aria-label": t("geometry.space") },
        picture,
        h("p", { class: "remark", id: hint }, t("geometry.hint")),
        h("div", { class: "fields axes" }, axes.map((axis) => axis.element)),
        h("div", { class: "buttons" }, home, turn),
      ),
      h(
        "section",
        { class: "card geometry-filter", "aria-label": t("geometry.filter") },
        h("h2", {}, t("geometry.filter")),
        h("p", { class: "explanation" }, t("geometry.filter-said")),
        threshold.element,
        bars,
        passed,
        numbers,
      ),
    ),
  );

  // ---- rotation and dragging ------------------------------------------------------------------------------------

  const go = (patch) => kit.go(patch);
  const here = () => moving ?? data.query;
  const limit = () => (state.threshold < 0 ? 1 / data.tokens.length : state.threshold);
  const view = () => camera((state.yaw * Math.PI) / 180, (state.pitch * Math.PI) / 180, data.longest);

  /** Limit a position to the picture and round it to the steps of the sliders. */
  function bound(point) {
    const far = Math.min(1, (1.15 * data.longest) / (Math.hypot(...point) || 1));
    return point.map((x) => Math.round(1000 * Math.min(Math.max(far * x, -FAR), FAR)) / 1000);
  }

  /** Length of the longest arrow, which fills the picture. It is constant while the query is dragged, so that the scale does not change. */
  let size = { of: "", longest: 1 };
  function sizeOf({ keys, query }) {
    const of = JSON.stringify(keys);
    if (of !== size.of) size = { of, longest: Math.max(...[...keys, query].map((arrow) => Math.hypot(...arrow)), 1) };
    return size.longest;
  }

  function move(point) {
    moving = bound(point);
    axes.forEach((axis, i) => axis.set(moving[i]));
    drawPicture();
    go({ vector: moving });
  }

  function rotate(yaw, pitch) {
    go({ yaw: Math.round(((((yaw + 180) % 360) + 360) % 360) - 180), pitch: Math.round(Math.min(Math.max(pitch, -85), 85)) });
  }

  const toPicture = (event) => {
    const box = picture.getBoundingClientRect();
    const scale = SIZE.width / box.width;
    return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
  };

  let drag = null;
  picture.addEventListener("pointerdown", (event) => {
    if (!data) return;
    const at = toPicture(event);
    const tip = view().at(here());
    drag = { ...at, query: Math.hypot(at.x - tip.x, at.y - tip.y) < 26 };
    picture.setPointerCapture(event.pointerId);
    picture.classList.toggle("moving", drag.query);
    picture.classList.add("dragging");
  });
  picture.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const at = toPicture(event);
    const [dx, dy] = [at.x - drag.x, at.y - drag.y];
    if (drag.query) move(view().moved(here(), dx, dy));
    else {
      drag.turned = [(drag.turned?.[0] ?? state.yaw) - dx * 0.45, (drag.turned?.[1] ?? state.pitch) + dy * 0.45];
      rotate(...drag.turned);
    }
    Object.assign(drag, at);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    picture.addEventListener(end, () => {
      drag = null;
      picture.classList.remove("moving", "dragging");
    });
  }
  picture.addEventListener("keydown", (event) => {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (way && event.shiftKey) move(view().moved(here(), 12 * way[0], 12 * way[1]));
    else if (way) rotate(state.yaw - 6 * way[0], state.pitch + 6 * way[1]);
    else if (event.key === "PageUp") move(view().moved(here(), 0, 0, -0.2));
    else if (event.key === "PageDown") move(view().moved(here(), 0, 0, 0.2));
    else if (event.key === "Home") go({ vector: [], yaw: defaults.yaw, pitch: defaults.pitch });
    else return;
    event.preventDefault();
  });

  // ---- drawing ----------------------------------------------------------------------------------------------------

  function drawPicture() {
    const passes = limit();
    put(
      picture,
      drawSpace({
        view: view(),
        keys: data.tokens.map((name, i) => ({ name: `${name}  ${number(data.weights[i], 2)}`, point: data.keys[i], weight: data.weights[i], passes: data.weights[i] >= passes })),
        query: here(),
        name: t("geometry.query-of", { token: data.name }),
        reach: data.longest,
      }),
    );
  }

  function drawFilter() {
    const most = limit();
    const longest = Math.max(...data.weights, most, 1e-9);
    threshold.set(most);
    put(
      bars,
      data.tokens.map((name, i) => {
        const weight = data.weights[i];
        const ok = weight >= most;
        return h(
          "li",
          { class: ok ? "passes" : "blocked" },
          h("span", { class: "bar-name" }, name),
          h("span", { class: "bar" }, h("span", { class: "bar-fill", style: { width: `${(100 * weight) / longest}%`, "--bar": kit.colour.css(kit.colour.weightColour(0.35 + (0.5 * weight) / longest)) } }), h("span", { class: "bar-limit", style: { left: `${(100 * most) / longest}%` } })),
          h("span", { class: "bar-value", dataset: { value: String(weight) } }, number(weight)),
        );
      }),
    );
    const through = data.weights.filter((weight) => weight >= most);
    const mass = through.reduce((sum, weight) => sum + weight, 0);
    passed.textContent = t("geometry.passed", { count: through.length, all: data.weights.length, limit: number(most, 3), share: number(100 * mass, 0) });
  }

  function drawNumbers() {
    const long = (v) => Math.hypot(...v);
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
    const q = data.query;
    const values = data.tokens.map((_, i) => {
      const cosine = dot(q, data.keys[i]) / (long(q) * long(data.keys[i]) || 1);
      return [...data.keys[i], data.dots[i], (Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI, data.scaled[i], data.weights[i]];
    });
    const columns = ["k₁", "k₂", "k₃", "q·k", t("geometry.angle"), "÷√3τ", t("geometry.weight")];
    const most = Math.max(...values.map((row) => Math.abs(row[6])), 1e-9);
    put(
      numbers,
      kit.matrix({
        name: t("geometry.numbers"),
        values,
        rows: data.tokens,
        columns: columns.map((name) => name),
        kind: "plain",
        text: (x, i, j) => (j === 4 ? `${number(x, 0)}°` : number(x)),
        paint: (x, j) => (j === 6 ? kit.colour.weightColour(x / most) : null),
        note: `q = (${q.map((x) => number(x, 2)).join(", ")})`,
      }).element,
    );
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  /** Send one request at a time; of the requests made meanwhile only the last one is sent. */
  async function ask() {
    if (asking) {
      waiting = true;
      return;
    }
    asking = true;
    waiting = null;
    const { text, seed, query, temperature, vector } = state;
    try {
      const trace = await answer({ text, seed, query, temperature, vector });
      if (closed) return;
      kit.showErrorAt(fields, null);
      read(trace);
    } catch (error) {
      if (closed) return;
      // A link may contain a query that this sentence does not have, or a position outside the picture.
      if (["query", "vector"].includes(error.field) && (state.query !== 0 || state.vector.length)) {
        kit.go({ query: 0, vector: [] }, { quiet: true });
        update({ ...state, query: 0, vector: [] });
      } else kit.failed(error, fields);
    } finally {
      asking = false;
      if (waiting && !closed) ask();
    }
  }

  /** Return the server's trace. The static edition has only the original query at temperature 1 and computes the others here. */
  async function answer(body) {
    if (!kit.edition) return kit.api.post("/api/geometry", body);
    return moved(await kit.api.post("/api/geometry", { ...body, temperature: 1, vector: [] }), body.vector, body.temperature);
  }

  function read(trace) {
    const step = (name) => trace.steps.find((one) => one.name === name).parts[0].values[0];
    const part = (symbol) => trace.inputs.find((one) => one.symbol === symbol).values;
    const { keys } = trace.tokens;
    data = { tokens: keys, name: trace.tokens.queries[0], keys: part("K"), query: part("Q")[0], dots: step("scores"), scaled: step("scale"), weights: step("weights") };
    data.longest = sizeOf(data);
    if (!drag?.query) moving = null;
    axes.forEach((axis, i) => document.activeElement !== axis.input && axis.set(data.query[i]));
    const chosen = String(state.query);
    put(fields.query.input, keys.map((token, i) => h("option", { value: String(i) }, `${i + 1}. ${token}`)));
    fields.query.set(chosen);
    home.disabled = state.vector.length === 0;
    drawAll();
  }

  function drawAll() {
    drawPicture();
    drawFilter();
    drawNumbers();
  }

  let lastQuestion = "";
  async function update(next) {
    state = next;
    fields.text.set(state.text);
    fields.seed.set(state.seed);
    fields.temperature.set(state.temperature);
    kit.limitToPrepared({ seed: fields.seed }, "/api/geometry", { text: state.text, seed: state.seed, query: state.query });
    const question = JSON.stringify([state.text, state.seed, state.query, state.temperature, state.vector]);
    if (question === lastQuestion && data) {
      drawPicture();
      drawFilter();
      return;
    }
    lastQuestion = question;
    await ask();
  }

  await update(state);
  return {
    update,
    unmount() {
      closed = true;
    },
    picture() {
      const copy = picture.cloneNode(true);
      for (const name of ["class", "tabindex", "role", "aria-describedby"]) copy.removeAttribute(name);
      return { title: t("geometry.title"), note: state.text, drawings: [copy] };
    },
  };
}
