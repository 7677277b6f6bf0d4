// Groups models that read the same elements, so that they can be compared.

const TASKS = ["chars", "tagger", "series", "plain"];
const TITLES = { chars: "Masked letters", tagger: "Parts of speech", series: "Series", plain: "Numbers" };

/** Groups of models, in the order of TASKS. */
export function groups(models) {
  const found = new Map();
  for (const model of models) {
    // Models of the same columns read the same text, whatever data they were trained on.
    const { scales, ...reads } = model.reads;
    const key = JSON.stringify([model.task, reads]);
    if (!found.has(key)) found.set(key, { task: model.task, kind: model.reads.kind, reads: model.reads, models: [] });
    found.get(key).models.push(model);
  }
  const all = [...found.values()];
  all.forEach((group) => group.models.sort(byWait));
  all.sort((a, b) => TASKS.indexOf(a.task) - TASKS.indexOf(b.task));
  for (const group of all) group.title = title(group, all);
  return all;
}

/** By delay; bidirectional models, which wait for the end, come last. */
function byWait(a, b) {
  return b.streams - a.streams || a.delay - b.delay || a.name.localeCompare(b.name);
}

function title(group, all) {
  const name = TITLES[group.task] ?? group.task;
  const alone = all.filter((other) => other.task === group.task).length === 1;
  return alone ? name : `${name}: ${group.models[0].name}`;
}

/** `d-LSTM` of `dlstm(256 units, delay 5): ..`. */
export function family(model) {
  const [, before, cell] = /^(bi|d|)(rnn|lstm|gru)\b/.exec(model.network) ?? [];
  if (!cell) return model.streams ? "network" : "bidirectional network";
  return { bi: "Bi-", d: "d-", "": "" }[before] + cell.toUpperCase();
}
