// What the page asks of its server, with the token where one is wanted.

const KEPT = "drnn.token"; // for this tab only
let token = sessionStorage.getItem(KEPT) ?? "";

/** An answer that is none: `status` 0 where nobody answered. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export function useToken(text) {
  token = text;
  if (text) sessionStorage.setItem(KEPT, text);
  else sessionStorage.removeItem(KEPT);
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  let response, body;
  try {
    response = await fetch(path, { ...options, headers });
    body = await response.json();
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Refused(0, "unreachable", "the server does not answer");
  }
  if (response.ok) return body;
  const { code = "error", message = response.statusText } = body?.error ?? {};
  throw new Refused(response.status, code, message);
}

export const models = async () => (await ask("/v1/models")).models;

/** Results of a sweep, or null where the server has none, as it has written into the page. */
export const sweep = async () => (document.body.dataset.sweep === "yes" ? ask("/v1/sweep") : null);

/** Answers to a whole sequence. */
export async function run(model, sequence, signal) {
  const body = JSON.stringify({ model, sequences: [sequence] });
  const headers = { "Content-Type": "application/json" };
  return (await ask("/v1/run", { method: "POST", body, headers, signal })).answers[0];
}

/** A live sequence's connection. A browser sends no headers with it, so the token goes as a protocol. */
export function open(model) {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const protocols = token ? ["drnn.v1", `drnn.bearer.${token}`] : ["drnn.v1"];
  return new WebSocket(`${scheme}//${location.host}/v1/stream?model=${encodeURIComponent(model)}`, protocols);
}
