// Requests to the server. The answers given to the open view are stored, so that a saved page can use them again.

import { edition, facts, saved } from "./facts.js";

/** A request that the server refused: `field` is the wrong field, `code` selects a text in the text files, `facts` are its values. */
export class RequestError extends Error {
  constructor({ code = "failed", field = "", facts = {}, message = "" }, status) {
    super(message);
    Object.assign(this, { code, field, facts, status });
  }
}

let answers = new Map();

export const answersNow = () => Object.fromEntries(answers);
export const forgetAnswers = () => (answers = new Map());

const KEPT = 24;

let questions = 0;

/** Count the pending requests; html[data-busy] is set while there are any. */
function busy(more) {
  questions += more;
  if (questions > 0) document.documentElement.dataset.busy = questions;
  else delete document.documentElement.dataset.busy;
}

const keyOf = (method, path, body) => `${method} ${path}${body === undefined ? "" : " " + JSON.stringify(body)}`;

const loading = new Map(); // name of a prepared answer → promise of it

/** Load a prepared answer of the static edition: a classic script, since a page opened from disk may not fetch files. */
function prepared(name) {
  if (!loading.has(name)) {
    const answer = new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = `answers/${name}.js`;
      arrived.set(name, done);
      script.onerror = () => failed(new RequestError({ code: "static-file", facts: { file: script.getAttribute("src") } }, 0));
      document.head.append(script);
    });
    loading.set(name, answer);
    answer.catch(() => loading.delete(name));
  }
  return loading.get(name);
}

const arrived = new Map();
if (edition) globalThis.regardAnswer = (name, answer) => arrived.get(name)?.(answer);

/** Return the bodies of all prepared requests of the static edition for a path. */
export function preparedBodies(path) {
  const start = `POST ${path} `;
  return Object.keys(edition?.answers ?? {}).filter((key) => key.startsWith(start)).map((key) => JSON.parse(key.slice(start.length)));
}

async function ask(method, path, body, { signal, remember = true, keepalive = false } = {}) {
  const key = keyOf(method, path, body);
  if (saved) {
    const any = `${method} ${path}`; // an answer saved without a request body belongs to the first request for this path
    if (any !== key && any in saved.answers) {
      saved.answers[key] = saved.answers[any];
      delete saved.answers[any];
    }
    if (key in saved.answers) return saved.answers[key];
    throw new RequestError({ code: "saved" }, 0);
  }
  if (edition && !Object.hasOwn(edition.answers, key)) throw new RequestError({ code: "static" }, 0);
  busy(1);
  try {
    if (edition) return await prepared(edition.answers[key]);
    const response = await fetch(path, {
      method,
      signal,
      keepalive, // the request is sent even if the page is closed meanwhile
      headers: { "x-regard-token": facts.token, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const type = response.headers.get("content-type") ?? "";
    const answer = type.includes("json") ? await response.json() : await response.text();
    if (!response.ok) throw new RequestError(answer.error ?? {}, response.status);
    if (remember) keep(key, answer);
    return answer;
  } catch (error) {
    if (error instanceof TypeError) throw new RequestError({ code: "gone" }, 0); // the server did not answer
    throw error;
  } finally {
    busy(-1);
  }
}

function keep(key, answer) {
  answers.delete(key);
  answers.set(key, answer);
  if (answers.size > KEPT) answers.delete(answers.keys().next().value);
}

/** Mark an old answer as still needed by the view, so that it is not discarded as the oldest one. */
export function retainAnswer(method, path, body) {
  const key = keyOf(method, path, body);
  if (answers.has(key)) keep(key, answers.get(key));
}

export const get = (path, options) => ask("GET", path, undefined, options);
export const post = (path, body, options) => ask("POST", path, body, options);

/** Start a job and wait until it ends; `onprogress(job)` is called with its status, `signal` stops it. */
export async function job(path, body, { onprogress = () => {}, signal } = {}) {
  if (saved || edition) return post(path, body);
  busy(1);
  try {
    let { job } = await post(path, body, { signal, remember: false });
    while (job.status === "waiting" || job.status === "running") {
      onprogress(job);
      await new Promise((done) => setTimeout(done, 250));
      if (signal?.aborted) {
        await ask("DELETE", `/api/jobs/${job.id}`, undefined, { remember: false });
        throw new DOMException("stopped", "AbortError");
      }
      job = await get(`/api/jobs/${job.id}`, { remember: false });
    }
    if (job.status !== "done") throw new RequestError({ code: "failed", facts: job.answer ?? {}, message: job.answer?.message }, 0);
    keep(keyOf("POST", path, body), job.answer);
    return job.answer;
  } finally {
    busy(-1);
  }
}
