// Letters per second of chars-en, streamed letter by letter: node crates/drnn-wasm/bench.mjs [MODULE..]
//
// In a headless Chromium (DRNN_CHROMIUM, or one on the path) and in Node.js, with the module in target/wasm or the
// given ones.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const modules = process.argv.slice(2).length ? process.argv.slice(2) : [join(root, "target/wasm/drnn.wasm")];
const MODEL = join(root, "crates/drnn-cli/models/chars-en.safetensors");

/** Rounds of 2,000 letters: the median and the best, in letters per second. */
async function measure({ instantiate }, wasm, model) {
  const text = "the old man walked home and said that he would never come back. ".repeat(32).slice(0, 2000);
  const stream = (await (await instantiate({ wasm })).load(model)).stream();
  const rates = [];
  for (let round = 0; round < 30; round++) {
    const begun = performance.now();
    for (const letter of text) stream.push(letter);
    rates.push((1000 * text.length) / (performance.now() - begun));
  }
  rates.sort((a, b) => a - b);
  return { median: Math.round(rates[15]), best: Math.round(rates.at(-1)) };
}

async function inChromium(wasm) {
  const page = `<!doctype html><script type="module">
    import * as drnn from "/drnn.js";
    ${measure}
    const body = JSON.stringify(await measure(drnn, "/drnn.wasm", "/model").catch((e) => ({ error: e.message })));
    fetch("/result", { method: "POST", body });
  </script>`;
  const files = {
    "/": ["text/html", () => page],
    "/drnn.js": ["text/javascript", () => readFileSync(join(root, "crates/drnn-wasm/npm/drnn.js"))],
    "/drnn.wasm": ["application/wasm", () => readFileSync(wasm)],
    "/model": ["application/octet-stream", () => readFileSync(MODEL)],
  };
  const profile = mkdtempSync(join(tmpdir(), "drnn-bench-"));
  let browser, server;
  try {
    return await new Promise((done, failed) => {
      server = createServer((request, response) => {
        if (request.url === "/result") {
          let body = "";
          request.on("data", (more) => (body += more)).on("end", () => done(JSON.parse(body)));
          return response.end();
        }
        const [media, contents] = files[request.url] ?? ["text/plain", () => ""];
        response.writeHead(200, { "Content-Type": media }).end(contents());
      }).listen(0, "127.0.0.1", () => {
        const options = ["--headless=new", "--disable-gpu", "--no-sandbox", "--no-first-run", `--user-data-dir=${profile}`];
        const url = `http://127.0.0.1:${server.address().port}/`;
        browser = spawn(process.env.DRNN_CHROMIUM ?? "chromium", [...options, url], { stdio: "ignore" });
        browser.on("error", failed);
        setTimeout(() => failed(new Error("no result after two minutes")), 120_000).unref();
      });
    });
  } finally {
    browser?.kill();
    server?.close();
    await new Promise((gone) => setTimeout(gone, 500)); // it still writes to its profile
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

for (const wasm of modules.map((path) => resolve(path))) {
  console.log(wasm);
  const show = (where) => ({ median, best, error }) => console.log(`  ${where}: ${error ?? `${median} letters/s, best round ${best}`}`);
  await inChromium(wasm).then(show("Chromium"), (e) => console.log(`  Chromium: ${e.message}`));
  const drnn = await import("./npm/drnn.js");
  await measure(drnn, wasm, MODEL).then(show("Node.js"), (e) => console.log(`  Node.js: ${e.message}`));
}
process.exit();
