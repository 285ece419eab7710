// Asking the server. Every answer of the view that is open is remembered, so that a saved page can give it again.

import { facts, saved } from "./facts.js";

/** What the server refused, and at which field: `code` has words in the text files, `facts` fill them. */
export class Refused extends Error {
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

/** While something is asked, the page says so: html[data-busy]. */
function busy(more) {
  questions += more;
  if (questions > 0) document.documentElement.dataset.busy = questions;
  else delete document.documentElement.dataset.busy;
}

async function ask(method, path, body, { signal, remember = true } = {}) {
  const key = `${method} ${path}${body === undefined ? "" : " " + JSON.stringify(body)}`;
  if (saved) {
    const any = `${method} ${path}`; // saved without the question: the answer to the first that is asked
    if (any !== key && any in saved.answers) {
      saved.answers[key] = saved.answers[any];
      delete saved.answers[any];
    }
    if (key in saved.answers) return saved.answers[key];
    throw new Refused({ code: "saved" }, 0);
  }
  busy(1);
  try {
    const response = await fetch(path, {
      method,
      signal,
      headers: { "x-regard-token": facts.token, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const type = response.headers.get("content-type") ?? "";
    const answer = type.includes("json") ? await response.json() : await response.text();
    if (!response.ok) throw new Refused(answer.error ?? {}, response.status);
    if (remember) keep(key, answer);
    return answer;
  } catch (error) {
    if (error instanceof TypeError) throw new Refused({ code: "gone" }, 0); // no answer at all
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

export const get = (path, options) => ask("GET", path, undefined, options);
export const post = (path, body, options) => ask("POST", path, body, options);

/** Start a job and follow it to its end; `told` hears of its progress, `signal` stops it. */
export async function job(path, body, { told = () => {}, signal } = {}) {
  if (saved) return post(path, body);
  let { job } = await post(path, body, { signal, remember: false });
  while (job.status === "waiting" || job.status === "running") {
    told(job);
    await new Promise((done) => setTimeout(done, 250));
    if (signal?.aborted) {
      await ask("DELETE", `/api/jobs/${job.id}`, undefined, { remember: false });
      throw new DOMException("stopped", "AbortError");
    }
    job = await get(`/api/jobs/${job.id}`, { remember: false });
  }
  if (job.status !== "done") throw new Refused({ code: "failed", facts: job.answer ?? {}, message: job.answer?.message }, 0);
  keep(`POST ${path} ${JSON.stringify(body)}`, job.answer);
  return job.answer;
}
