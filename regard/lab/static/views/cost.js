// The view Cost: cost of attention by sequence length, predicted, measured on this machine, and compared with a recurrent layer.

import { chart } from "./cost/chart.js";
import { count, QUANTITIES } from "./cost/units.js";

export const defaults = {
  metric: "operations",
  d_model: 512,
  heads: 8,
  kv_heads: 2,
  window: 256,
  batch: 1,
  dtype: "float32",
  backward: false,
  hidden: [],
  seq: 2048,
  measured: false, // whether a saved page shows measurements
};

const VARIANTS = { written: "", full: "", window: "", grouped: "7 4", cached: "", recurrent: "2 4" };
const METRICS = { operations: "operations", memory: "bytes", time: "seconds" };
const PLACES = [512, 2048, 8192];

export async function mount(root, initial, kit) {
  const { h, t, put, m } = kit;
  let state = initial;
  let data = null;
  let points = []; // measurements for the current settings
  let measuring = null;
  let closed = false;
  let lastQuestion = "";
  let turn = 0;

  const colours = () => Object.fromEntries(Object.keys(VARIANTS).map((name) => [name, kit.colour.token(`--cost-${name}`)]));
  const power = (name, label, most, least, more = {}) =>
    kit.sliderField({ label, value: Math.log2(state[name]), min: Math.log2(least), max: Math.log2(most), step: 1, format: (x) => count(2 ** x), onchange: (x) => change({ [name]: 2 ** x }), ...more });

  /** Adjust width, heads and groups to each other after one of them was changed. */
  function change(patch) {
    const next = { ...state, ...patch };
    if (patch.d_model) next.heads = Math.min(next.heads, next.d_model);
    if (patch.heads) next.d_model = Math.max(next.d_model, next.heads);
    if (patch.kv_heads) next.heads = Math.max(next.heads, next.kv_heads);
    next.kv_heads = Math.min(next.kv_heads, next.heads);
    kit.go({ d_model: next.d_model, heads: next.heads, kv_heads: next.kv_heads, ...patch, measured: false });
  }

  const fields = {
    d_model: power("d_model", t("cost.width"), 8192, 8),
    heads: power("heads", t("cost.heads"), 128, 1),
    kv_heads: power("kv_heads", t("cost.kv-heads"), 128, 1),
    window: power("window", t("cost.window"), 32768, 1),
    batch: power("batch", t("cost.batch"), 64, 1),
    dtype: kit.choiceField({ label: t("cost.dtype"), value: state.dtype, options: ["float32", "bfloat16", "float64"].map((name) => [name, name]), onchange: (dtype) => change({ dtype }) }),
    backward: kit.switchField({ label: t("cost.backward"), value: state.backward, onchange: (backward) => change({ backward }) }),
  };
  const length = kit.sliderField({ label: t("cost.length"), value: Math.log2(state.seq), min: 6, max: 15, step: 1, format: (x) => count(2 ** x), onchange: (x) => kit.go({ seq: 2 ** x }) });

  const metrics = h("div", { class: "metrics", role: "group", "aria-label": t("cost.metric") });
  const legend = h("div", { class: "legend", role: "group", "aria-label": t("cost.curves") });
  const place = h("figure", { class: "chart-place" });
  const how = h("div", { class: "measuring" });
  const here = h("div", { class: "here" });
  const table = h("div", { class: "table-scroll" });
  const against = h("div", { class: "against" });
  const document_ = h("div", { class: "document" });
  const errors = h("div", { class: "table-scroll" });
  const measuredCard = h("section", { class: "card cost-measured", hidden: true }, h("h2", {}, t("cost.measured-title")), h("p", { class: "remark" }, t("cost.measured-said")), errors);
  put(
    root,
    h("div", { class: "card cost-controls" }, h("div", { class: "fields" }, Object.values(fields).map((one) => one.element))),
    h(
      "div",
      { class: "cost-main" },
      h("section", { class: "card cost-chart", "aria-label": t("cost.chart") }, h("div", { class: "chart-head" }, metrics, how), legend, place),
      h("section", { class: "card cost-here" }, length.element, here),
    ),
    measuredCard,
    h("div", { class: "cost-below" }, h("section", { class: "card" }, h("h2", {}, t("cost.against")), against), h("section", { class: "card" }, h("h2", {}, t("cost.document")), document_)),
    h("section", { class: "card cost-all" }, h("h2", {}, t("cost.all")), table),
  );

  // ---- drawing ------------------------------------------------------------------------------------------------------

  const metric = () => (state.metric in METRICS ? state.metric : "operations");
  const quantity = () => QUANTITIES[METRICS[metric()]];
  const shown = () => Object.keys(VARIANTS).filter((name) => !state.hidden.includes(name));
  const ofPoint = (point) => point[METRICS[metric()]];

  function series() {
    const fill = colours();
    return shown().map((name) => {
      const values =
        metric() === "time"
          ? data.lengths.map((seq) => points.find((one) => one.variant === name && one.seq === seq)?.seconds ?? null)
          : data.variants[name].map((point) => ofPoint(point));
      return { name, label: t(`cost.variant.${name}`), colour: fill[name], dash: VARIANTS[name] || null, values };
    });
  }

  function drawing(narrow, at = state.seq) {
    return chart({
      lengths: data.lengths,
      series: series(),
      points: points.map((one) => ({ name: one.variant, x: one.seq, y: ofPoint(one) })),
      quantity: quantity(),
      at,
      narrow,
      titles: { x: t("cost.axis"), y: t(`cost.axis.${metric()}`) },
      mark: metric() === "operations" ? { length: 2 * state.d_model, text: t("cost.mark") } : null,
    });
  }

  function drawChart() {
    if (metric() === "time" && points.length === 0) {
      put(place, h("p", { class: "empty" }, t("cost.no-times")));
      return;
    }
    const plot = drawing((place.clientWidth || root.clientWidth) < 560);
    plot.svg.setAttribute("role", "img");
    plot.svg.setAttribute("aria-label", t("cost.chart-said", { metric: t(`cost.metric.${metric()}`), n: shown().length }));
    const move = (event) => {
      const box = plot.svg.getBoundingClientRect();
      const seq = plot.nearest(((event.clientX - box.left) / box.width) * plot.size.width);
      if (seq !== state.seq) kit.go({ seq });
    };
    plot.svg.addEventListener("pointermove", (event) => event.pointerType === "mouse" && move(event));
    plot.svg.addEventListener("click", move);
    put(place, plot.svg);
  }

  function drawHeads() {
    const fill = colours();
    const focused = document.activeElement?.dataset?.metric ?? document.activeElement?.dataset?.variant;
    put(metrics, Object.keys(METRICS).map((name) => h("button", { type: "button", class: "small", "aria-pressed": String(name === metric()), dataset: { metric: name }, onclick: () => kit.go({ metric: name }) }, t(`cost.metric.${name}`))));
    put(
      legend,
      Object.keys(VARIANTS).map((name) => {
        const on = !state.hidden.includes(name);
        return h(
          "button",
          { type: "button", class: "small quiet curve-name", "aria-pressed": String(on), dataset: { variant: name }, onclick: () => kit.go({ hidden: on ? [...state.hidden, name] : state.hidden.filter((one) => one !== name) }) },
          kit.s("svg", { viewBox: "0 0 26 8", class: "sample", "aria-hidden": "true" }, kit.s("line", { x1: 1, x2: 25, y1: 4, y2: 4, stroke: fill[name], "stroke-width": 3, "stroke-dasharray": VARIANTS[name] || null })),
          h("span", {}, t(`cost.variant.${name}`)),
        );
      }),
    );
    if (focused) root.querySelector(`[data-metric="${focused}"], [data-variant="${focused}"]`)?.focus();
  }

  /** The selected length: each variant compared with full attention. */
  function drawHere() {
    const i = data.lengths.indexOf(state.seq);
    const kind = metric() === "time" ? "seconds" : METRICS[metric()];
    const value = (name) => (kind === "seconds" ? (points.find((one) => one.variant === name && one.seq === state.seq)?.seconds ?? null) : data.variants[name][i][kind]);
    const whole = value("full");
    const most = Math.max(...shown().map((name) => value(name) ?? 0), 1e-12);
    put(
      here,
      h("h2", {}, t("cost.here", { n: count(state.seq) })),
      h(
        "ul",
        { class: "here-list" },
        shown().map((name) => {
          const x = value(name);
          return h(
            "li",
            { dataset: { here: name, value: x === null ? "" : String(x) } },
            h("span", { class: "here-name" }, t(`cost.variant.${name}`)),
            h("span", { class: "here-value" }, x === null ? "–" : QUANTITIES[kind].text(x)),
            h("span", { class: "here-ratio" }, x === null || !whole || name === "full" ? "" : `× ${Number((x / whole).toPrecision(x / whole < 1 ? 2 : 3))}`),
            h("span", { class: "here-bar", "aria-hidden": "true" }, h("span", { style: { width: `${(100 * (x ?? 0)) / most}%`, background: `var(--cost-${name})` } })),
          );
        }),
      ),
      h("p", { class: "remark" }, t("cost.here-said")),
    );
  }

  function drawTable() {
    const names = Object.keys(VARIANTS);
    const kinds = ["operations", "bytes"];
    put(
      table,
      h(
        "table",
        { class: "plain numbers" },
        h(
          "thead",
          {},
          h("tr", {}, h("th", { scope: "col", rowspan: 2 }, "S"), names.map((name) => h("th", { scope: "colgroup", colspan: 2 }, t(`cost.variant.${name}`)))),
          h("tr", {}, names.map(() => kinds.map((kind) => h("th", { scope: "col" }, t(`cost.short.${kind}`))))),
        ),
        h(
          "tbody",
          {},
          data.lengths.map((seq, i) => h("tr", { class: seq === state.seq ? "now" : "" }, h("th", { scope: "row" }, count(seq)), names.map((name) => kinds.map((kind) => h("td", { dataset: { variant: name, kind, seq: String(seq), value: String(data.variants[name][i][kind]) } }, QUANTITIES[kind].text(data.variants[name][i][kind])))))),
        ),
      ),
    );
  }

  function drawMeasured() {
    measuredCard.hidden = points.length === 0;
    const off = (guess, measured) => {
      const part = 100 * (guess / measured - 1);
      return guess === measured ? t("cost.exact") : `${part > 0 ? "+" : "−"}${Math.abs(part).toFixed(1)} %`;
    };
    const heads = ["variant", "S", "operations", "found", "error", "bytes", "found", "error", "time"];
    put(
      errors,
      h(
        "table",
        { class: "plain numbers" },
        h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name === "S" ? "S" : t(`cost.column.${name}`))))),
        h(
          "tbody",
          {},
          points.map((one) =>
            h(
              "tr",
              { dataset: { measured: one.variant, seq: String(one.seq) } },
              h("th", { scope: "row" }, t(`cost.variant.${one.variant}`)),
              h("td", {}, count(one.seq)),
              h("td", {}, QUANTITIES.operations.text(one.predicted_operations)),
              h("td", {}, QUANTITIES.operations.text(one.operations)),
              h("td", { class: "off" }, off(one.predicted_operations, one.operations)),
              h("td", {}, QUANTITIES.bytes.text(one.predicted_bytes)),
              h("td", {}, QUANTITIES.bytes.text(one.bytes)),
              h("td", { class: "off" }, off(one.predicted_bytes, one.bytes)),
              h("td", {}, QUANTITIES.seconds.text(one.seconds)),
            ),
          ),
        ),
      ),
    );
  }

  function drawAgainst() {
    const i = data.lengths.indexOf(state.seq);
    const [ours, theirs] = ["full", "recurrent"].map((name) => data.variants[name][i]);
    const time = (name) => points.find((one) => one.variant === name && one.seq === state.seq)?.seconds;
    const written = (x) => (x === undefined ? "–" : QUANTITIES.seconds.text(x));
    const rows = [
      ["operations", QUANTITIES.operations.text(ours.operations), QUANTITIES.operations.text(theirs.operations)],
      ["bytes", QUANTITIES.bytes.text(ours.bytes), QUANTITIES.bytes.text(theirs.bytes)],
      ["steps", "1", count(state.seq)],
      ["path", "1", count(state.seq)],
      ["kept", QUANTITIES.bytes.text((data.variants.cached[i].cache * state.heads) / state.kv_heads), QUANTITIES.bytes.text(4 * state.batch * state.d_model)],
      ["time", written(time("full")), written(time("recurrent"))],
    ];
    put(
      against,
      h("p", {}, t("cost.against-said", { n: count(state.seq) })),
      h(
        "div",
        { class: "table-scroll" },
        h(
          "table",
          { class: "plain numbers" },
          h("thead", {}, h("tr", {}, ["what", "transformer", "recurrent"].map((name) => h("th", { scope: "col" }, t(`cost.against.${name}`))))),
          h("tbody", {}, rows.map(([name, a, b]) => h("tr", { dataset: { row: name } }, h("th", { scope: "row" }, t(`cost.row.${name}`)), h("td", {}, a), h("td", {}, b)))),
        ),
      ),
      h("p", { class: "remark" }, t("cost.against-note")),
    );
  }

  function drawDocument() {
    const MiB = (x) => count(Math.round(x / 2 ** 20));
    const four = () => m.row(m.n("4"), m.o("·"));
    put(
      document_,
      h("p", {}, t("cost.document-said")),
      kit.display(four(), m.brackets(3, m.i("S"), m.i("D"), "+", m.sup("S", 2), "+", m.i("S"), m.i("D"))),
      h("p", {}, t("cost.document-wrong")),
      kit.display(four(), m.brackets(3, m.i("B"), m.i("S"), m.i("D"), "+", m.mark("result", m.i("B"), m.i("H")), m.sup("S", 2), "+", m.i("B"), m.i("S"), m.i("D"))),
      h(
        "div",
        { class: "table-scroll" },
        h(
          "table",
          { class: "plain numbers" },
          h("caption", {}, t("cost.document-caption")),
          h("thead", {}, h("tr", {}, ["seq", "document", "written", "fused", "operations-document", "operations"].map((name) => h("th", { scope: "col" }, t(`cost.doc.${name}`))))),
          h(
            "tbody",
            {},
            data.document.map((one) =>
              h(
                "tr",
                { dataset: { document: String(one.seq) } },
                h("th", { scope: "row" }, count(one.seq)),
                h("td", { class: "wrong" }, `${MiB(one.document)} MiB`),
                h("td", {}, h("strong", {}, `${MiB(one.materialised)} MiB`), ` × ${Number((one.materialised / one.document).toPrecision(2))}`),
                h("td", {}, `${MiB(one.fused)} MiB`),
                h("td", { class: "wrong" }, QUANTITIES.operations.text(one.document_operations)),
                h("td", {}, h("strong", {}, QUANTITIES.operations.text(one.operations))),
              ),
            ),
          ),
        ),
      ),
      h("p", { class: "remark" }, t("cost.document-run"), " ", h("code", {}, `regard cost --seq ${PLACES.join(",")} --materialised`)),
    );
  }

  function drawHow(job = null) {
    if (kit.edition) {
      put(how, h("span", { class: "remark" }, t("cost.measure"), ": ", h("code", {}, "regard cost --measure")));
      return;
    }
    if (measuring) {
      const { done = 0, of = 0 } = job?.progress ?? {};
      put(
        how,
        h("progress", { max: of || 1, "aria-label": t("cost.measuring-label"), ...(of ? { value: done } : {}) }),
        h("span", { class: "remark" }, of ? t("cost.measuring", { done, of }) : t("cost.waiting")),
        h("button", { type: "button", class: "small", dataset: { do: "stop" }, onclick: () => measuring?.abort() }, t("cost.stop")),
      );
      if (of) how.querySelector("progress").value = done;
    } else put(how, h("button", { type: "button", class: "small primary", dataset: { do: "measure" }, onclick: measure }, points.length ? t("cost.measure-again") : t("cost.measure")));
  }

  function draw() {
    drawHeads();
    drawChart();
    drawHere();
    drawTable();
    drawMeasured();
    drawAgainst();
    drawDocument();
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  const question = () => {
    const { d_model, heads, kv_heads, window, batch, dtype, backward } = state;
    return { d_model, heads, kv_heads, window, batch, dtype, backward };
  };

  async function measure() {
    if (measuring) return;
    const of = lastQuestion;
    measuring = new AbortController();
    points = [];
    drawHow();
    how.querySelector("button")?.focus();
    const onprogress = (job) => {
      if (closed || of !== lastQuestion) return;
      const latest = job.progress.points ?? [];
      const more = latest.length !== points.length;
      points = latest;
      const focused = how.contains(document.activeElement);
      drawHow(job);
      if (focused) how.querySelector("button")?.focus();
      if (more) draw();
    };
    try {
      const answer = await kit.api.job("/api/cost/measure", question(), { onprogress, signal: measuring.signal });
      if (closed || of !== lastQuestion) return;
      points = answer.points;
      kit.go({ measured: true }, { quiet: true });
      kit.announce(t("cost.measured-done", { n: points.length }));
    } catch (error) {
      if (!closed) kit.failed(error);
    } finally {
      measuring = null;
      if (!closed) {
        const focused = how.contains(document.activeElement);
        drawHow();
        if (focused) how.querySelector("button")?.focus();
        draw();
      }
    }
  }

  async function update(next) {
    state = next;
    if (!defaultsLengths.includes(state.seq)) state = { ...state, seq: 2048 };
    for (const name of ["d_model", "heads", "kv_heads", "window", "batch"]) fields[name].set(Math.log2(state[name]));
    fields.dtype.set(state.dtype);
    fields.backward.set(state.backward);
    length.set(Math.log2(state.seq));
    const body = question();
    kit.limitToPrepared(fields, "/api/cost", body);
    const key = JSON.stringify(body);
    if (key === lastQuestion && data) {
      draw();
      return;
    }
    const request = ++turn;
    try {
      if (!data) put(place, h("p", { class: "empty", role: "status" }, t("cost.loading")));
      const answer = await kit.api.post("/api/cost", body);
      if (closed || request !== turn) return;
      if (lastQuestion !== key) {
        measuring?.abort();
        points = [];
      }
      lastQuestion = key;
      data = answer;
      kit.showErrorAt(fields, null);
      if (kit.saved && state.measured) points = (await kit.api.job("/api/cost/measure", body)).points;
      drawHow();
      draw();
    } catch (error) {
      if (closed || request !== turn) return;
      kit.failed(error, fields);
      if (!data) put(place, h("p", { class: "empty" }, kit.errorText(error, "cost")));
    }
  }

  const defaultsLengths = Array.from({ length: 10 }, (_, i) => 2 ** (i + 6));
  const sized = new ResizeObserver(() => data && drawChart());
  const first = update(state); // not awaited: the first request loads torch
  if (kit.saved) await first;
  sized.observe(place);
  return {
    update,
    unmount() {
      closed = true;
      measuring?.abort();
      sized.disconnect();
    },
    async picture() {
      await first;
      const { svg } = drawing(false, null);
      return { title: `${t("cost.title")} · ${t(`cost.axis.${metric()}`)}`, note: Object.entries(question()).map(([name, value]) => `${name} = ${value}`).join(" · "), drawings: [svg] };
    },
  };
}
