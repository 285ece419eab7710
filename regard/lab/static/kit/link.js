// The permanent link: #/VIEW?name=value&… holds what differs from the view's defaults.

const read = (text, like) => {
  if (typeof like === "string") return text;
  try {
    const value = JSON.parse(text);
    return typeof value === typeof like && Array.isArray(value) === Array.isArray(like) && value !== null ? value : like;
  } catch {
    return like;
  }
};

/** The view and the parameters that an address names. */
export function parseLink(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: path, asked: new URLSearchParams(query) };
}

/** The state of a view: its defaults with what the link says, each value of the default's type. */
export function stateOf(asked, defaults) {
  const state = structuredClone(defaults);
  for (const [name, text] of asked) if (name in defaults) state[name] = read(text, defaults[name]);
  return state;
}

/** The link of a view in a state. */
export function linkTo(view, state = {}, defaults = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (!(name in defaults) || JSON.stringify(value) === JSON.stringify(defaults[name])) continue;
    asked.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  const query = asked.toString();
  return `#/${view}${query ? "?" + query : ""}`;
}
