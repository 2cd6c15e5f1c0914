// What is shown at the moment, who wants to know when it changes, and the address that says it.

const results = ready("results-data");
const state = {
  result: 0, cost: null, baseline: null, picked: [], find: "", sort: null, down: false, columns: null,
  only: "all", sweeps: {}, example: null, show: "all", group: "", seek: "", slid: null, pool: "", side: null,
  mine: null, theirs: null, turned: "all", between: null, arrived: false, others: false, settings: "", open: [], width: window.innerWidth,
};
const OF_ONE_RESULT = { cost: null, baseline: null, sort: null, group: "", slid: null, columns: null, open: [] };
const watchers = [];
const watch = (keys, draw) => watchers.push({ keys, draw });
const current = () => results[state.result];
const policy = (number) => current().policies[number];
const metric = (name) => current().metrics.find((one) => one.metric === name);

// Of a large result only what the first table shows is read at once: policies that it leaves out are null until then.
const incomplete = () => results.some((one) => one.policies.includes(null));

async function readRest() {
  for (const [at, result] of results.entries()) {
    const [rest, outcomes] = await Promise.all([unpack(`rest-${at}`), unpack(`outcomes-${at}`)]);
    result.outcomes = outcomes;
    if (!rest) continue;
    const { rows, ...parts } = rest;
    Object.assign(result, parts);
    result.table.rows = rows;
  }
}

function change(part) {
  const keys = Object.keys(part);
  if (keys.includes("result")) {  // what was picked stays picked where the other result has it
    const names = results[part.result].policies.map((one) => one.name);
    const kept = state.picked.map((one) => names.indexOf(policy(one).name)).filter((one) => one >= 0);
    Object.assign(state, OF_ONE_RESULT, { picked: kept, sweeps: {} });
  }
  Object.assign(state, part);
  writeAddress();
  for (const watcher of watchers) {
    if (keys.includes("result") || watcher.keys.some((key) => keys.includes(key))) watcher.draw();
  }
}

// The policies in the order in which one looks at them: the leader, the baseline, the best, and last what sees gold.
function usual() {
  const numbers = current().policies.map((_, number) => number);
  const real = numbers.filter((one) => !policy(one).diagnostic);
  return [...new Set([current().leader, current().baseline, ...real, ...numbers])].filter((one) => one !== null);
}

// The policies that are picked, or else those that one looks at first.
const picked = () => (state.picked.length ? state.picked : usual().slice(0, 2));

const ADDRESSED = {
  example: "example", cost: "cost", find: "find", show: "show", group: "group", only: "only", seek: "seek", settings: "settings",
  turned: "turned",
};
const FACED = { mine: 0, theirs: 1 };  // a policy of the first, and of the second of two results
let written = null;

// #example=…&policies=a,b: names are encoded one by one, so that a comma may be part of one.
function writeAddress() {
  const parts = [];
  if (state.result) parts.push(`result=${state.result + 1}`);
  for (const [name, key] of Object.entries(ADDRESSED)) {
    if (state[key] && state[key] !== "all") parts.push(`${name}=${encodeURIComponent(state[key])}`);
  }
  if (state.baseline !== null) parts.push(`baseline=${encodeURIComponent(policy(state.baseline).name)}`);
  for (const [name, at] of Object.entries(FACED)) {
    if (state[name] !== null) parts.push(`${name}=${encodeURIComponent(results[at].policies[state[name]].name)}`);
  }
  if (state.between) {
    parts.push(`between=${state.between.map((one, at) => encodeURIComponent(results[at].policies[one].name)).join(",")}`);
  }
  if (state.picked.length) {
    parts.push(`policies=${state.picked.map((one) => encodeURIComponent(policy(one).name)).join(",")}`);
  }
  written = parts.join("&");
  history.replaceState(null, "", written ? `#${written}` : location.pathname + location.search);
}

function readAddress() {
  if (location.hash.slice(1) === written || (location.hash && place(location.hash.slice(1)))) return;
  const told = {};
  for (const part of location.hash.slice(1).split("&")) {
    const [name, ...rest] = part.split("=");
    told[name] = rest.join("=");
  }
  const result = Math.min(Math.max(Number(told.result || 1) - 1, 0), results.length - 1) || 0;
  const names = results[result].policies.map((one) => one.name);
  const numbered = (name) => names.indexOf(plain(name));
  const found = (told.policies || "").split(",").map(numbered).filter((one) => one >= 0);
  const base = told.baseline === undefined ? -1 : numbered(told.baseline);
  const numberIn = (at, name) => (name === undefined || !results[at] ? -1 : results[at].policies.findIndex((one) => one.name === plain(name)));
  const faced = Object.entries(FACED).map(([name, at]) => [name, numberIn(at, told[name]) < 0 ? null : numberIn(at, told[name])]);
  const two = (told.between || "").split(",").map((name, at) => numberIn(at, name));
  const rest = Object.entries(ADDRESSED).map(([name, key]) => [key, plain(told[name] || "")]);
  const part = { ...Object.fromEntries([...rest, ...faced]), result, picked: found, baseline: base < 0 ? null : base };
  const known = (choices, name) => (Object.hasOwn(choices, name) ? name : "all");
  change({
    ...part, cost: part.cost || null, example: part.example || null, arrived: part.example !== "",
    show: known(SHOWN, part.show), only: known(ONLY, part.only), turned: known(TURNED, part.turned), between: two.length === 2 && !two.includes(-1) ? two : null,
    settings: part.settings === "apart" ? "apart" : "",
  });
}

function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
