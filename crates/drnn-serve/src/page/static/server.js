// What takes the place of server.js where the page is only files: the models run in a worker of this browser.

const files = (name) => new URL(`../${name}`, import.meta.url);

/** An error that the page shows; `status` is 0 if a file could not be loaded. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export function useToken() {} // files need none

async function json(name) {
  try {
    const response = await fetch(files(name));
    if (response.ok) return await response.json();
  } catch {
    // The same as a bad response.
  }
  throw new ApiError(0, "unreachable", `${name} cannot be loaded`);
}

export const models = () => json("models.json");

/** Results of a sweep, or null if the page has none, as its data-sweep says. */
export const sweep = async () => (document.body.dataset.sweep === "yes" ? json("sweep.json") : null);

let worker, requests = 0;
const waiting = new Map(), sockets = new Map(); // by the number of the request, and of the stream

/** Starts the worker, and again after it has stopped. */
function post(message) {
  if (!worker) {
    worker = new Worker(script(files("page/worker.js")), { type: "module" });
    worker.onmessage = ({ data }) => receive(data);
    worker.onerror = () => {
      worker.terminate();
      worker = undefined;
      for (const [, { reject }] of waiting) reject(new ApiError(0, "unreachable", "the worker has stopped"));
      for (const [, socket] of sockets) socket.onclose?.({ reason: "" });
      waiting.clear();
      sockets.clear();
    };
  }
  worker.postMessage(message);
}

/** The page's policy allows no other script's address to become a worker. */
function script(url) {
  const policy = globalThis.trustedTypes?.createPolicy("drnn-worker", { createScriptURL: (url) => url });
  script = () => (policy ? policy.createScriptURL(url.href) : url);
  return script();
}

function receive({ request, stream, frames, answers, error }) {
  if (request !== undefined) {
    const { resolve, reject } = waiting.get(request) ?? {};
    waiting.delete(request);
    if (error) reject?.(new ApiError(error.status, error.code, error.message));
    else resolve?.(answers);
    return;
  }
  const socket = sockets.get(stream);
  if (error) {
    sockets.delete(stream);
    socket?.onmessage?.({ data: JSON.stringify({ error }) });
    socket?.onclose?.({ reason: error.code });
  } else {
    for (const frame of frames) socket?.onmessage?.({ data: frame });
  }
}

/** Predictions for a whole sequence. */
export function run(model, sequence, signal) {
  const request = requests++;
  return new Promise((resolve, reject) => {
    waiting.set(request, { resolve, reject });
    signal?.addEventListener("abort", () => {
      waiting.delete(request);
      reject(new DOMException("aborted", "AbortError"));
    });
    post({ request, model, sequence });
  });
}

/** Opens a stream: what live.js uses of a WebSocket. */
export function open(model) {
  const stream = requests++;
  const socket = {
    onmessage: null,
    onclose: null,
    send: (message) => post({ stream, message }),
    close: () => sockets.delete(stream) && post({ stream, close: true }),
  };
  sockets.set(stream, socket);
  post({ stream, open: model });
  return socket;
}
