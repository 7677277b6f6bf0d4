// Requests to the server, with the token if one is set.

const STORAGE_KEY = "drnn.token"; // for this tab only
let token = sessionStorage.getItem(STORAGE_KEY) ?? "";

/** An error response; `status` is 0 if the server could not be reached. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export function useToken(text) {
  token = text;
  if (text) sessionStorage.setItem(STORAGE_KEY, text);
  else sessionStorage.removeItem(STORAGE_KEY);
}

async function request(path, options = {}) {
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  let response, body;
  try {
    response = await fetch(path, { ...options, headers });
    body = await response.json();
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new ApiError(0, "unreachable", "the server does not respond");
  }
  if (response.ok) return body;
  const { code = "error", message = response.statusText } = body?.error ?? {};
  throw new ApiError(response.status, code, message);
}

export const models = async () => (await request("/v1/models")).models;

/** Results of a sweep, or null if the server has none, as the page's data-sweep says. */
export const sweep = async () => (document.body.dataset.sweep === "yes" ? request("/v1/sweep") : null);

/** Predictions for a whole sequence. */
export async function run(model, sequence, signal) {
  const body = JSON.stringify({ model, sequences: [sequence] });
  const headers = { "Content-Type": "application/json" };
  return (await request("/v1/run", { method: "POST", body, headers, signal })).answers[0];
}

/** Opens a stream. Browsers cannot set headers of a WebSocket, so the token is a subprotocol. */
export function open(model) {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const protocols = token ? ["drnn.v1", `drnn.bearer.${token}`] : ["drnn.v1"];
  return new WebSocket(`${scheme}//${location.host}/v1/stream?model=${encodeURIComponent(model)}`, protocols);
}
