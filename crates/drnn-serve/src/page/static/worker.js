// The models of the page, in a worker: messages of a stream as `drnn serve` takes and sends them (docs/SERVING.md).

import { load } from "../drnn/drnn.js";

const models = new Map(); // by name: promises
const streams = new Map(); // by number: promises

function model(name) {
  if (!models.has(name)) {
    const loaded = load(new URL(`../models/${encodeURIComponent(name)}.safetensors`, import.meta.url), { name });
    models.set(name, loaded);
    loaded.catch(() => models.delete(name)); // to be loaded again
  }
  return models.get(name);
}

/** A live stream, and how many sequences it has ended. */
async function open(name) {
  return { stream: (await model(name)).stream(), sequence: 0 };
}

/** The frames that answer a message. */
function frames(live, { elements = [], flush }) {
  const found = [];
  const frame = (prediction) => found.push(JSON.stringify({ ...prediction, sequence: live.sequence }));
  for (const element of elements) {
    const position = live.stream.position;
    try {
      const prediction = live.stream.push(element);
      if (prediction) frame(prediction);
    } catch ({ message }) {
      const error = { code: "element_refused", message, position, sequence: live.sequence };
      found.push(JSON.stringify({ error }));
      break;
    }
  }
  if (flush) {
    live.stream.flush().forEach(frame);
    live.sequence += 1;
  }
  return found;
}

async function answer({ request, model: name, sequence, stream, open: opened, message, close }) {
  try {
    if (request !== undefined) {
      postMessage({ request, answers: (await model(name)).run([sequence])[0] });
    } else if (opened !== undefined) {
      streams.set(stream, open(opened));
      await streams.get(stream);
      postMessage({ stream, frames: [JSON.stringify({ ready: true })] });
    } else if (close) {
      const live = await streams.get(stream);
      streams.delete(stream);
      live?.stream.free();
    } else {
      const live = await streams.get(stream);
      if (live) postMessage({ stream, frames: frames(live, JSON.parse(message)) });
    }
  } catch (e) {
    streams.delete(stream);
    // What could not be loaded is tried again; a refused sequence is not.
    const status = models.has(name) ? 400 : 0;
    postMessage({ request, stream, error: { status, code: status ? "element_refused" : "unreachable", message: e.message } });
  }
}

// One after another, as on a connection.
let last = Promise.resolve();
onmessage = ({ data }) => (last = last.then(() => answer(data)));
