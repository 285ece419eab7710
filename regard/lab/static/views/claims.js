// The view Claims: claims about attention, each with an experiment, its results, and the verdict of a rule.

import { inline } from "../kit/inline.js";
import { drawPlot, key, reading, short } from "./claims/plot.js";
import { sheet } from "./claims/sheet.js";
import { FONT, inChinese } from "../kit/words.js";

export const defaults = {
  verdict: "", // list only claims with this verdict; empty: all
  claim: "",
  ran: "", // the claim whose small run a saved page shows
};

const STANDS = ["holds", "holds-when", "does-not-hold-here", "undecided", "not-run"];
const ICONS = {
  holds: "M5 12.5 10 17.5 19.5 7",
  "holds-when": "M4 14.5C7 8.5 10 8.5 12 12s5 3.5 8-2.5",
  "does-not-hold-here": "M6.5 6.5 17.5 17.5M17.5 6.5 6.5 17.5",
  undecided: "M8.5 9.2a3.6 3.6 0 1 1 5.2 3.2c-1.2.7-1.7 1.3-1.7 2.4M12 18.4v.1",
  "not-run": "M12 5.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z",
};
const minus = (text) => text.replaceAll(/-(?=\d)(?<!e-)/g, "−");
const LEAST = 252; // smallest width in pixels of a plot beside others

export async function mount(root, initial, kit) {
  const { h, s, t, put } = kit;
  let state = initial;
  let data = null;
  let running = null; // { name, stop, progress }
  const ran = new Map(); // name → the claim with its small run as result
  let closed = false;

  const translate = (words) => (kit.language() === "zh" ? inChinese(words.zh) : words.en);
  const stands = (one) => (one.state === "judged" ? one.verdict : "not-run");
  const wordOf = (one) => (one.state === "judged" ? translate(one.words) : t(`claims.state.${one.state}`));
  const icon = (name) => s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
  const filter = () => (STANDS.includes(state.verdict) && data.some((one) => stands(one) === state.verdict) ? state.verdict : "");
  const listed = () => data.filter((one) => !filter() || stands(one) === filter());
  const chosen = () => listed().find((one) => one.name === state.claim) ?? listed().find((one) => one.state === "judged") ?? listed()[0];

  const overview = h("details", { class: "card claims-overview", open: true });
  const filters = h("div", { class: "claims-filters", role: "group", "aria-label": t("claims.filter") });
  const list = h("div", { class: "claims-list", role: "tablist", "aria-orientation": "vertical", "aria-label": t("claims.list"), onkeydown: walk });
  const panel = h("section", { class: "card claims-one", role: "tabpanel", id: "claim-shown", tabindex: 0 });
  const main = h("div", { class: "claims-main" }, list, panel);
  put(root, overview, filters, main);

  // ---- the table of all claims --------------------------------------------------------------------------------------

  function drawOverview() {
    const heading = (name) => h("th", { scope: "col" }, t(`claims.overview.${name}`));
    const line = (one) =>
      h(
        "tr",
        { class: `is-${stands(one)}`, dataset: { overview: one.name } },
        h("th", { scope: "row" }, h("a", { href: kit.link("claims", { claim: one.name }) }, inline(translate(one.title)))),
        h("td", {}, h("span", { class: "claims-stands" }, wordOf(one))),
        h("td", { class: "claims-effect" }, one.effect ? [inline(translate(one.effect.name)), h("br"), h("b", {}, minus(one.effect.text)), " ", minus(one.effect.between ? `(${one.effect.between})` : "")] : one.state === "judged" ? t("claims.true-statements", { n: one.findings.filter((each) => each.answer === "yes").length, of: one.findings.length }) : "–"),
        h("td", { class: "value" }, one.state === "judged" ? String(one.result.seeds) : "–"),
        h("td", { class: "value" }, one.state === "judged" ? lasted(one.result.seconds) : "–"),
        h("td", {}, h("code", {}, one.state === "judged" ? one.result.command : toRun(one))),
      );
    put(
      overview,
      h("summary", {}, t("claims.overview")),
      h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": t("claims.overview") }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["claim", "verdict", "effect", "seeds", "duration", "command"].map(heading))), h("tbody", {}, data.map(line)))),
    );
  }

  // ---- the list -----------------------------------------------------------------------------------------------------

  function drawFilters() {
    const focused = document.activeElement?.dataset?.stands;
    const one = (name, many, label) =>
      h(
        "button",
        { type: "button", class: `claims-filter ${name ? `is-${name}` : ""}`, disabled: many === 0, "aria-pressed": String(filter() === name), dataset: { stands: name || "all" }, onclick: () => kit.go({ verdict: filter() === name ? "" : name }, { push: true }) },
        h("span", { class: "claims-count" }, String(many)),
        h("span", { class: "claims-label" }, name ? icon(name) : null, label),
      );
    put(filters, one("", data.length, t("claims.all")), STANDS.map((name) => one(name, data.filter((each) => stands(each) === name).length, t(`claims.verdict.${name}`))));
    if (focused) filters.querySelector(`[data-stands="${focused}"]`)?.focus();
  }

  function drawList() {
    const focused = list.contains(document.activeElement);
    const now = chosen();
    put(
      list,
      listed().map((one) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            class: `claims-tab is-${stands(one)}`,
            id: `claim-${one.name}`,
            "aria-selected": String(one === now),
            "aria-controls": "claim-shown",
            tabindex: one === now ? 0 : -1,
            dataset: { claim: one.name },
            onclick: () => kit.go({ claim: one.name }, { push: true }),
          },
          h("span", { class: "claims-sign" }, icon(stands(one))),
          h("span", { class: "claims-title" }, inline(translate(one.title))),
          h("span", { class: "claims-stands" }, wordOf(one)),
        ),
      ),
    );
    const tab = list.querySelector("[aria-selected=true]");
    if (focused) tab.focus({ preventScroll: true });
    // Scroll the list only, not the page.
    const [box, tabBox] = [list.getBoundingClientRect(), tab.getBoundingClientRect()];
    if (tabBox.left < box.left || tabBox.right > box.right) list.scrollLeft += tabBox.left - box.left - 12;
    if (tabBox.top < box.top || tabBox.bottom > box.bottom) list.scrollTop += tabBox.top - box.top - 12;
    panel.setAttribute("aria-labelledby", tab.id);
  }

  function walk(event) {
    const tabs = [...list.children];
    const at = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    kit.go({ claim: tabs[(to + tabs.length) % tabs.length].dataset.claim });
  }

  // ---- one claim ----------------------------------------------------------------------------------------------------

  const section = (title, ...inside) => h("section", { class: "claims-part" }, h("h3", {}, title), inside);

  function command(text) {
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(text);
        kit.toast(t("claims.copied"));
      } catch (error) {
        kit.toast(t("keep.failed", { why: error.message }), { wrong: true });
      }
    };
    return h("div", { class: "claims-command" }, h("code", {}, text), h("button", { type: "button", class: "small", dataset: { do: "copy" }, "aria-label": t("claims.copy-this", { command: text }), onclick: copy }, t("claims.copy")));
  }

  function drawOne() {
    const one = chosen();
    const before = document.activeElement?.dataset?.do;
    const focused = panel.contains(document.activeElement) && before;
    const small = ran.get(one.name);
    put(
      panel,
      h("header", { class: "claims-head" }, h("p", { class: "claims-from" }, h("code", {}, one.name), h("span", {}, t("claims.from", { documents: one.source.map((title) => t("claims.document", { title: translate(title) })).join(t("claims.and")) }))), h("h2", {}, inline(translate(one.title)))),
      h("blockquote", { class: "claims-says" }, inline(translate(one.says))),
      verdict(one),
      section(t("claims.experiment"), h("p", {}, inline(translate(one.experiment)))),
      one.state === "judged" ? evidence(one) : null,
      section(t("claims.rule"), h("p", {}, inline(translate(one.rule))), h("p", { class: "remark" }, t("claims.rule-said"))),
      one.result ? measuredOn(one) : null,
      again(one),
      small ? tried(small) : null,
    );
    if (focused) panel.querySelector(`[data-do="${before}"], [data-do="run"], [data-do="stop"]`)?.focus({ preventScroll: true });
    drawPlots();
  }

  /** The command that leads to a verdict: it continues an unfinished run and restarts an unreadable one. */
  const toRun = (one) => (one.state === "unfinished" ? one.result.command : one.state === "unreadable" ? `${one.command} --again` : one.command);

  function verdict(one) {
    const name = stands(one);
    const words = {
      judged: () => inline(translate(one.sentence)),
      "not-run": () => t("claims.not-run-said"),
      unfinished: () => t("claims.unfinished-said", { done: one.result.parts, of: one.result.wanted }),
      unreadable: () => one.why,
    };
    return h(
      "div",
      { class: `claims-verdict is-${name}`, dataset: { verdict: name } },
      h("strong", {}, icon(name), h("span", {}, wordOf(one))),
      h("p", {}, words[one.state]()),
      one.state === "judged" ? null : command(toRun(one)),
      one.state === "judged" && one.result.size === "tiny" ? h("p", { class: "claims-warning" }, t("claims.tiny")) : null,
    );
  }

  /** The plots, the figures with their intervals, and the notes. */
  function evidence(one) {
    const tabular = one.chart.panels.some((each) => each.kind === "table");
    return [
      h(
        "figure",
        { class: "claims-chart" },
        h("figcaption", {}, inline(translate(one.chart.title))),
        tabular ? one.chart.panels.map(wordsTable) : [h("div", { class: "plots" }), h("p", { class: "plot-reading", "aria-hidden": "true" }), everyNumber(one)],
      ),
      section(t("claims.findings"), findingsTable(one)),
      one.figures.length ? section(t("claims.figures"), figuresTable(one)) : null,
      one.notes.length && !tabular ? section(t("claims.notes"), h("ul", {}, one.notes.map((note) => h("li", {}, inline(translate(note)))))) : null,
    ];
  }

  function wordsTable(table) {
    return h(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": t("claims.table") },
      h(
        "table",
        { class: "plain claims-words" },
        h("thead", {}, h("tr", {}, table.columns.map((name) => (translate(name) ? h("th", { scope: "col" }, translate(name)) : h("td"))))),
        h("tbody", {}, table.rows.map((row) => h("tr", {}, row.map((cell, j) => h("td", { dataset: { column: translate(table.columns[j]) } }, translate(cell)))))),
      ),
    );
  }

  /** The statements that the verdict follows from. */
  function findingsTable(one) {
    const heading = (name) => h("th", { scope: "col" }, t(`claims.finding.${name}`));
    const effect = (each) => (each.effect ? [minus(each.effect.text), each.effect.between ? ` (${minus(each.effect.between)})` : ""] : "–");
    const seeds = (each) => (each.seeds === null ? "–" : each.answer === "undecided" ? t("claims.about-seeds", { n: each.seeds }) : String(each.seeds));
    return h(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": t("claims.findings") },
      h(
        "table",
        { class: "plain numbers claims-findings" },
        h("thead", {}, h("tr", {}, ["statement", "answer", "effect", "threshold", "seeds"].map(heading))),
        h("tbody", {}, one.findings.map((each) => h("tr", { class: `answer-${each.answer}` }, h("th", { scope: "row" }, inline(translate(each.name))), h("td", { class: "claims-answer" }, t(`claims.answer.${each.answer}`)), h("td", { class: "value" }, effect(each)), h("td", {}, each.threshold ? minus(each.threshold) : "–"), h("td", {}, seeds(each))))),
      ),
    );
  }

  /** For a share, a bar from 0 to 100 % with its interval. */
  function bar(figure) {
    if (figure.unit !== "%" || figure.value < 0 || figure.value > 1) return null;
    const at = (x) => `${100 * Math.max(0, Math.min(1, x))}%`;
    const between = figure.low === null ? null : h("span", { class: "between", style: { left: at(figure.low), width: `calc(${at(figure.high)} - ${at(figure.low)})` } });
    return h("span", { class: "claims-bar", "aria-hidden": "true" }, h("span", { class: "filled", style: { width: at(figure.value) } }), between);
  }

  function figuresTable(one) {
    const shares = one.figures.some((each) => bar(each));
    return h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "plain numbers" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("claims.figure")), shares ? h("td", { class: "claims-bars" }) : null, h("th", { scope: "col" }, t("claims.value")), h("th", { scope: "col" }, t("claims.interval")))),
        h(
          "tbody",
          {},
          one.figures.map((each) =>
            h("tr", { dataset: { value: String(each.value), low: String(each.low), high: String(each.high) } }, h("th", { scope: "row" }, inline(translate(each.name))), shares ? h("td", { class: "claims-bars" }, bar(each)) : null, h("td", { class: "value" }, minus(each.text)), h("td", {}, each.low === null ? "–" : minus(each.between))),
          ),
        ),
      ),
    );
  }

  /** The data of the plots as tables. */
  function everyNumber(one) {
    const open = h("details", { class: "claims-numbers" }, h("summary", {}, t("claims.numbers")));
    const fill = () => {
      if (!open.open || open.children.length > 1) return;
      open.append(
        ...one.chart.panels.map((plot) =>
          h(
            "div",
            { class: "table-scroll", tabindex: 0, role: "region", "aria-label": translate(plot.title) || translate(one.chart.title) },
            h(
              "table",
              { class: "plain numbers" },
              h("caption", {}, translate(plot.title) || translate(plot.y_label)),
              h("thead", {}, h("tr", {}, h("th", { scope: "col" }, translate(plot.x_label) || t("claims.place")), plot.series.map((each) => h("th", { scope: "col" }, translate(each.name))))),
              h(
                "tbody",
                {},
                [...new Set(plot.series.flatMap((each) => each.points.map((point) => point[0])))].map((at) =>
                  h(
                    "tr",
                    {},
                    h("th", { scope: "row" }, typeof at === "number" ? short(at) : translate(plot.categories[at])),
                    plot.series.map((each) => {
                      const point = each.points.find((each) => each[0] === at);
                      return h("td", {}, point ? reading(plot, point) : "–");
                    }),
                  ),
                ),
              ),
            ),
          ),
        ),
      );
    };
    open.addEventListener("toggle", fill);
    return open;
  }

  function measuredOn(one) {
    const { machine, seeds, seconds, size, load, shipped } = one.result;
    const facts = [
      ["machine", t("claims.machine-said", machine)],
      ["versions", t("claims.versions-said", machine)],
      ["seeds", String(seeds)],
      ["size", t(`claims.size.${size}`)],
      ["time", load === null ? lasted(seconds) : t("claims.time-said", { time: lasted(seconds), load: load.toFixed(0) })],
      ["file", shipped ? t("claims.file-shipped") : t("claims.file-own")],
    ];
    return section(
      t("claims.measured-on"),
      h("dl", { class: "claims-facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, t(`claims.fact.${name}`)), h("dd", {}, value)))),
      one.state === "judged" ? command(one.result.command) : null,
    );
  }

  const lasted = (seconds) => (seconds < 120 ? t("claims.seconds", { n: seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0) }) : t("claims.minutes", { n: (seconds / 60).toFixed(0) }));

  function again(one) {
    if (kit.fixed) return null;
    const tabBox = running?.name === one.name;
    const { done = 0, of = 0 } = (tabBox && running.progress) || {};
    return section(
      t("claims.try"),
      h("p", { class: "remark" }, t("claims.try-said")),
      h(
        "div",
        { class: "claims-running" },
        tabBox
          ? [
              h("progress", { max: of || 1, "aria-label": t("claims.progress"), ...(of ? { value: done } : {}) }),
              h("span", { class: "remark" }, of ? t("claims.parts-done", { done, of }) : t("claims.starting")),
              h("button", { type: "button", class: "small", dataset: { do: "stop" }, onclick: () => running?.stop.abort() }, t("claims.stop")),
            ]
          : h("button", { type: "button", class: "small primary", dataset: { do: "run" }, disabled: running !== null, onclick: () => run(one.name) }, ran.has(one.name) ? t("claims.run-again") : t("claims.run")),
      ),
    );
  }

  function tried(one) {
    return h("section", { class: "claims-tried", "aria-label": t("claims.tried") }, h("h3", {}, t("claims.tried")), h("p", { class: "claims-warning" }, t("claims.tried-said", { time: lasted(one.result.seconds) })), verdictLine(one), evidence(one));
  }

  const verdictLine = (one) => h("p", {}, h("strong", {}, t("claims.by-rule"), " ", wordOf(one)), " · ", inline(translate(one.sentence)));

  // ---- plots --------------------------------------------------------------------------------------------------------

  /** Draw the plots of the selected claim at the available width. */
  function drawPlots() {
    const shown = [chosen(), ran.get(chosen().name)].filter((one) => one?.state === "judged" && one.chart.panels[0].kind !== "table");
    panel.querySelectorAll(".plots").forEach((place, i) => fillPlots(place, shown[i]));
  }

  function fillPlots(place, one) {
    const { panels } = one.chart;
    const room = place.clientWidth || 320;
    const gap = 26;
    const fit = Math.max(1, Math.min(panels.length, Math.floor((room + gap) / (LEAST + gap))));
    const columns = panels.length === 4 && fit === 3 ? 2 : fit;
    const width = Math.floor((room - gap * (columns - 1)) / columns);
    const caption = place.parentElement.querySelector(".plot-reading");
    const hint = one.result.seeds > 1 ? t("claims.hint", { n: one.result.seeds }) : t("claims.hint-one");
    caption.textContent = hint;
    const names = (plot) => plot.kind + plot.series.map((each) => each.name.en).join("|");
    const alike = panels.length > 1 && panels[0].series.length > 1 && panels.every((plot) => names(plot) === names(panels[0]));
    place.style.setProperty("grid-template-columns", `repeat(${columns}, minmax(0, 1fr))`);
    const shared = alike ? key(panels[0], translate, room) : null;
    put(
      place,
      shared ? s("svg", { viewBox: `0 0 ${room} ${shared.height}`, width: room, height: shared.height, class: "plot-key", "font-family": FONT, "aria-hidden": "true" }, shared.group) : null,
      panels.map((plot) => {
        const { svg } = drawPlot(plot, { width, translate, keyed: !alike, read: (text) => (caption.textContent = text) });
        svg.setAttribute("role", "img");
        svg.setAttribute("aria-label", t("claims.plot-said", { title: translate(plot.title) || translate(one.chart.title), names: plot.series.map((each) => translate(each.name)).join(", ") }));
        svg.addEventListener("pointerleave", () => (caption.textContent = hint));
        return svg;
      }),
    );
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  async function run(name) {
    if (running) return;
    running = { name, stop: new AbortController(), progress: null };
    drawOne();
    const onprogress = (job) => {
      if (closed || !running) return;
      running.progress = job.progress;
      const bar = panel.querySelector("progress");
      const { done = 0, of = 0 } = job.progress;
      if (!bar || !of || chosen().name !== name) return;
      bar.max = of;
      bar.value = done;
      bar.nextElementSibling.textContent = t("claims.parts-done", { done, of });
    };
    try {
      const answer = await kit.api.job("/api/claims/run", { claim: name }, { onprogress, signal: running.stop.signal });
      if (closed) return;
      ran.set(name, answer);
      kit.go({ ran: name }, { quiet: true });
      kit.announce(t("claims.ran-said", { verdict: wordOf(answer) }));
    } catch (error) {
      if (!closed) kit.failed(error);
    } finally {
      running = null;
      if (!closed) drawOne();
    }
  }

  function draw() {
    drawOverview();
    drawFilters();
    drawList();
    drawOne();
  }

  function update(next) {
    const before = data && chosen().name;
    state = next;
    if (!data) return;
    draw();
    if (chosen().name !== before && panel.getBoundingClientRect().top < 0) panel.scrollIntoView({ block: "start" });
  }

  async function load() {
    put(filters);
    main.hidden = overview.hidden = true;
    const waiting = h("p", { class: "card claims-waiting", role: "status" }, t("claims.loading"));
    root.append(waiting);
    try {
      const answer = await kit.api.get("/api/claims");
      if (closed) return;
      data = answer.claims;
      if (kit.saved && state.ran) ran.set(state.ran, await kit.api.job("/api/claims/run", { claim: state.ran }));
      waiting.remove();
      main.hidden = overview.hidden = false;
      draw();
      sized.observe(panel);
    } catch (error) {
      if (closed) return;
      put(waiting, kit.errorText(error, "claims"));
      kit.failed(error);
    }
  }

  let width = 0;
  const sized = new ResizeObserver(() => {
    if (data && panel.clientWidth !== width) drawPlots();
    width = panel.clientWidth;
  });
  const first = load(); // not awaited: the experiments load torch
  if (kit.saved) await first;
  return {
    update,
    unmount() {
      closed = true;
      running?.stop.abort();
      sized.disconnect();
    },
    async picture() {
      await first;
      const one = chosen();
      const colour = kit.colour.token({ holds: "--right", "holds-when": "--accent", "does-not-hold-here": "--wrong" }[stands(one)] ?? "--faint");
      const plain = (words) => translate(words).replaceAll("*", "");
      const drawn = sheet({
        lines: [[wordOf(one), { size: 17, weight: 700, fill: colour, after: 0 }], ...(one.state === "judged" ? [[plain(one.sentence), { size: 15 }]] : [])],
        chart: one.chart,
        foot: one.result ? [`${t("claims.machine-said", one.result.machine)} · ${t("claims.fact.seeds")}: ${one.result.seeds}`, one.result.command] : [toRun(one)],
        translate,
      });
      return { title: translate(one.title), note: plain(one.says), drawings: [drawn] };
    },
  };
}
