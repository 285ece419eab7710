// The page around the views: navigation, language, theme, and loading the view that the address names.
//
// A view is static/views/NAME.js (its contract is in regard/lab/README.md):
//   export const defaults = { … }                       its state, stored in the permanent link
//   export function mount(root, state, kit) → { update(state), unmount(), picture() }

import * as api from "./kit/api.js";
import * as colour from "./kit/colour.js";
import { reducedMotion, freshId, h, debounced, put, rich, s } from "./kit/dom.js";
import { edition, facts, saved } from "./kit/facts.js";
import * as fields from "./kit/fields.js";
import { figure } from "./kit/figure.js";
import { heatmap, thumbnail } from "./kit/heatmap.js";
import * as exports from "./kit/export.js";
import { linkTo, parseLink, stateOf } from "./kit/link.js";
import { display, m, math } from "./kit/math.js";
import { matrix } from "./kit/matrix.js";
import { path } from "./kit/path.js";
import { needsPython, staticNotice } from "./kit/static_notice.js";
import { announce, clearToasts, notes, toast } from "./kit/notes.js";
import { textPicture, titledPicture } from "./kit/titled_picture.js";
import { hasText, LANGUAGES, languageNow, number, setLanguage, t } from "./kit/text.js";

const views = saved ? [saved.view] : facts.views;
const remembered = {
  get: (name) => {
    try {
      return localStorage.getItem(`regard.${name}`);
    } catch {
      return null; // a file opened from disk may have no storage
    }
  },
  set: (name, value) => {
    try {
      localStorage.setItem(`regard.${name}`, value);
    } catch {
      // without storage, settings last for this visit only
    }
  },
};

// ---- elements -----------------------------------------------------------------------------------------------

const header = h("header", { class: "top" });
const main = h("main", { id: "main", tabindex: -1 });
const footer = h("footer", { class: "bottom" });
document.body.append(header, main, footer, ...notes());

const links = new Map(); // view → its last link, for views that were open before
const open = { name: null, module: null, view: null, state: {}, failed: null };

const kit = {
  t,
  hasText,
  number,
  language: languageNow,
  h,
  s,
  put,
  debounced,
  freshId,
  reducedMotion,
  api,
  colour,
  matrix,
  heatmap,
  thumbnail,
  figure,
  rich,
  math,
  display,
  m,
  ...fields,
  toast,
  announce,
  runner: Boolean(facts.runner),
  saved: Boolean(saved),
  edition: Boolean(edition),
  fixed: Boolean(saved ?? edition), // no server computes other numbers
  needsPython,
  link: (view, state) => linkTo(view, state, open.name === view ? open.module.defaults : Object.fromEntries(Object.keys(state).map((name) => [name]))),
  /** Change the state, update the address, and call the view's update. */
  go(patch, { push = false, quiet = false } = {}) {
    open.state = { ...open.state, ...patch };
    writeLink(push);
    if (!quiet) changed();
  },
  /** Record a stage of the learning path that the learner has completed in this view. */
  complete: (stage) => path.complete(stage, open.name, open.state),
  /** Report an error: at its field if it has one, else as a toast. */
  failed(error, at = {}) {
    if (error.name === "AbortError") return;
    if (fields.showErrorAt(at, error, open.name)) return;
    if (error.code === "static") clearToasts(); // one message is enough, however far a slider is moved
    toast(fields.errorText(error, open.name), { wrong: true, seconds: 8 });
  },
};

/** Update the address after a pause, since browsers refuse too frequent changes. */
const follow = debounced(() => address(false), 150);

function writeLink(push) {
  if (!push) follow();
  else {
    follow.stop();
    address(true);
  }
}

function address(push) {
  const link = linkTo(open.name, open.state, open.module.defaults);
  try {
    if (push) history.pushState(null, "", link);
    else history.replaceState(null, "", link);
  } catch {
    // some browsers do not allow a changed address for a local file
  }
}

// ---- language and theme -------------------------------------------------------------------------------------

function chooseLanguage(wanted) {
  remembered.set("language", wanted);
  setLanguage(wanted);
  frame();
  show({ again: true });
}

function applyTheme() {
  const root = document.documentElement;
  const theme = remembered.get("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  if (remembered.get("contrast") === "more") root.dataset.contrast = "more";
  else delete root.dataset.contrast;
  colour.readTheme();
}

function switchTheme() {
  remembered.set("theme", colour.dark() ? "light" : "dark");
  applyTheme();
  frame();
  show({ again: true });
}

function switchContrast() {
  remembered.set("contrast", remembered.get("contrast") === "more" ? "usual" : "more");
  applyTheme();
  frame();
}

const icon = (path) => s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, s("path", { d: path }));
const ICONS = {
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8ZM12 2v3M12 19v3M2 12h3M19 12h3M4.9 4.9 7 7M17 17l2.1 2.1M4.9 19.1 7 17M17 7l2.1-2.1",
  contrast: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 3v18M12 7h6.5M12 12h9M12 17h6.5",
};

function frame() {
  const other = languageNow() === "en" ? "zh" : "en";
  const more = document.documentElement.dataset.contrast === "more";
  const focused = [...header.querySelectorAll("a, button")].indexOf(document.activeElement);
  put(
    header,
    h("a", { class: "skip", href: "#main", onclick: skip }, t("skip")),
    h("a", { class: "brand", href: saved ? null : linkTo(views[0]) }, mark(), h("span", {}, "regard"), h("small", {}, t("lab"))),
    h(
      "nav",
      { "aria-label": t("views") },
      views.map((name) => h("a", { href: links.get(name) ?? linkTo(name), "aria-current": name === open.name ? "page" : null, dataset: { view: name } }, t(`${name}.name`))),
    ),
    h(
      "div",
      { class: "switches" },
      h("button", { type: "button", class: "quiet language", lang: other === "zh" ? "zh-Hans" : "en", onclick: () => chooseLanguage(other) }, LANGUAGES[other]),
      h("button", { type: "button", class: "quiet icon-button contrast", "aria-pressed": String(more), "aria-label": t("contrast"), title: t("contrast"), onclick: switchContrast }, icon(ICONS.contrast)),
      h("button", { type: "button", class: "quiet icon-button theme", "aria-label": colour.dark() ? t("light") : t("dark"), title: colour.dark() ? t("light") : t("dark"), onclick: switchTheme }, icon(colour.dark() ? ICONS.sun : ICONS.moon)),
    ),
  );
  header.querySelectorAll("a, button")[focused]?.focus();
  const nav = header.querySelector("nav"); // on a phone it is wider than the screen
  const here = nav.querySelector("[aria-current]");
  if (here && here.offsetLeft + here.offsetWidth > nav.clientWidth) nav.scrollLeft = here.offsetLeft - nav.offsetLeft;
  put(footer, h("p", {}, foot({ version: facts.version })));
}

function foot(values) {
  if (edition) return t("foot.static", values);
  return saved ? t("foot.saved", values) : t("foot", values);
}

function skip(event) {
  event.preventDefault();
  main.focus();
}

function mark() {
  const places = [[0, 0, 1], [1, 0, 0.5], [1, 1, 1], [2, 0, 0.25], [2, 1, 0.7], [2, 2, 1]];
  return s(
    "svg",
    { viewBox: "0 0 26 26", class: "mark", "aria-hidden": "true" },
    places.map(([i, j, much]) => s("rect", { x: 1 + 8.5 * j, y: 1 + 8.5 * i, width: 7, height: 7, rx: 1.6, opacity: much, class: i === 2 && j === 1 ? "seen" : "" })),
  );
}

// ---- the open view --------------------------------------------------------------------------------------------

const keeps = [
  ["keep.link", async () => (address(false), navigator.clipboard.writeText(location.href)), "kept.link"],
  ["keep.copy", async () => exports.copyPng(await picture()), "kept.copy"],
  ["keep.png", async () => exports.download(await exports.png(await picture()), `regard-${open.name}.png`)],
  ["keep.svg", async () => exports.download(exports.svgText(await picture()), `regard-${open.name}.svg`, "image/svg+xml")],
  ["keep.page", async () => exports.download(await exports.savedPage(open.name, open.state), `regard-${open.name}.html`, "text/html")],
];

/** The address of this view; a page opened from disk has no address that others could open, only the view's link. */
function shareLink() {
  const link = linkTo(open.name, open.state, open.module.defaults);
  const shown = location.protocol === "file:" ? `regard lab ${link}` : location.origin + location.pathname + link;
  try {
    return decodeURI(shown);
  } catch {
    return shown;
  }
}

/** The open view as a picture with its title, the project and the link. A view without a picture is written as text. */
async function picture() {
  const drawn = (await open.view.picture?.()) ?? textPicture(main.querySelector(".view"), t(`${open.name}.title`));
  return titledPicture(drawn, shareLink());
}

function toolbar() {
  const shown = keeps.filter(([key]) => !(saved && key === "keep.link") && !(edition && key === "keep.page"));
  return h(
    "div",
    { class: "keeps", role: "group", "aria-label": t("keep") },
    shown.map(([key, act, done]) =>
      h(
        "button",
        {
          type: "button",
          class: "quiet small",
          dataset: { keep: key.split(".")[1] },
          onclick: async () => {
            try {
              await act();
              if (done) toast(t(done));
            } catch (error) {
              toast(t("keep.failed", { why: error.message }), { wrong: true });
            }
          },
        },
        t(key),
      ),
    ),
  );
}

/** Update the view after a change of its state. */
async function changed() {
  path.show(open.name, open.state);
  await open.view?.update?.(open.state);
}

let turn = 0;

async function show({ again = false, focus = false } = {}) {
  follow.stop();
  const mine = ++turn; // another view may be requested while this one loads; only the last request counts
  const link = parseLink(location.hash);
  const absent = facts.absent?.includes(link.view); // a view that the static edition does not contain
  const name = views.includes(link.view) || absent ? link.view : saved ? saved.view : views[0];
  if (link.parameters.get("lang") in LANGUAGES && link.parameters.get("lang") !== languageNow()) {
    setLanguage(link.parameters.get("lang"));
    again = true;
  }
  if (name === open.name && !again && open.view) {
    open.state = stateOf(link.parameters, open.module.defaults);
    changed();
    return;
  }
  const module = absent ? { defaults: {}, mount: (root) => root.append(needsPython()) } : await (saved || edition ? import(`lab/views/${name}.js`) : import(`./views/${name}.js`));
  if (facts.styles.includes(name)) await styled(name);
  if (mine !== turn) return;
  open.view?.unmount?.();
  if (name !== open.name) {
    api.forgetAnswers();
    clearToasts();
    if (open.name) links.set(open.name, linkTo(open.name, open.state, open.module.defaults));
  }
  let state = stateOf(link.parameters, module.defaults);
  if (name === open.name) state = open.state;
  else if (saved && !location.hash) state = { ...state, ...saved.state };
  Object.assign(open, { name, module, state, view: null });
  // The styles of one view must not apply to others. A `disabled` style sheet is discarded and loaded again only after
  // the view has measured its elements, so media="not all" is set instead.
  for (const [of, { link }] of styles) link.media = of === name ? "all" : "not all";
  frame();
  const root = h("div", { class: `view view-${name}` });
  const tools = h("div");
  path.show(name, state);
  put(
    main,
    path.element,
    h(
      "div",
      { class: "view-head" },
      h("h1", { tabindex: -1 }, t(`${name}.title`)),
      tools,
      h("p", { class: "lead" }, t(`${name}.lead`)),
      edition && !absent ? staticNotice() : null,
    ),
    root,
  );
  document.title = `${t(`${name}.name`)} · regard`;
  if (focus) {
    main.querySelector("h1").focus({ preventScroll: true });
    scrollTo({ top: 0 });
    announce(t(`${name}.title`));
  }
  if (!saved && !absent && link.view && !views.includes(link.view)) toast(t("error.no-view", { view: link.view.slice(0, 40) }), { wrong: true, seconds: 8 });
  let view = {};
  try {
    view = (await module.mount(root, state, kit)) ?? {};
  } catch (error) {
    console.error(error); // a failing view must not affect the others
    put(root, h("p", { class: "card" }, t("error.failed")));
  }
  if (mine !== turn) {
    view.unmount?.();
    return;
  }
  open.view = view;
  if (!absent) tools.replaceWith(toolbar());
  document.documentElement.dataset.view = name;
  path.refresh(name, open.state);
  if (open.state !== state) changed(); // the state changed while the view was loading
}

const styles = new Map();
function styled(name) {
  if (!styles.has(name)) {
    const link = h("link", { rel: "stylesheet", href: `${facts.base ?? "/static/"}views/${name}.css` });
    const loaded = new Promise((done) => (link.onload = link.onerror = done));
    styles.set(name, { link, loaded });
    document.head.append(link);
  }
  return styles.get(name).loaded;
}

applyTheme();
setLanguage(saved?.language ?? remembered.get("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show({ again: true }));
addEventListener("hashchange", () => show({ focus: parseLink(location.hash).view !== open.name }));
frame();
await show();
document.documentElement.dataset.ready = "";
performance.mark("regard-ready");
