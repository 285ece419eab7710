// Messages of the static edition: what it contains, and the command that opens the whole lab.

import { h } from "./dom.js";
import { t } from "./text.js";

const INSTALL = "pip install 'regard[lab]'";

/** A line below the heading of a view: the examples are prepared, other values need Python. */
export function staticNotice() {
  return h("p", { class: "static-notice" }, t("static.notice"), " ", h("code", {}, INSTALL), " ", h("code", {}, "regard lab"));
}

/** What stands in place of a function that the static edition does not have. */
export function needsPython(command = "regard lab") {
  return h(
    "section",
    { class: "card needs-python-card" },
    h("h2", { tabindex: -1 }, t("static.needs-python")),
    h("p", {}, t("static.needs-python-said")),
    h("pre", { class: "code-block", tabindex: 0, role: "region", "aria-label": t("static.command") }, `${INSTALL}\n${command}`),
  );
}
