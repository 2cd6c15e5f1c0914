// The example browser: what two policies did with every example, filtered, and one after the other.

const SHOWN = {
  all: "all examples", fix: "fixes: the first does better", flip: "flips: the second does better",
  other: "disagreements: their answers differ", exhausted: "exhausted: the log ran out for one of them",
  none: "no policy is right", some: "some policies are right, some are not",
};
const LISTED = 60;
const STRATA = 12;  // the groups whose examples are counted
const ENDINGS = ["its rule", "its cap", "the log ran out", "nothing left to verify"];
const unpacked = new Map();
let more = LISTED;

// The examples lie packed in the page; they are unpacked when they are first shown.
function examplesOf(result) {
  if (!unpacked.has(result)) unpacked.set(result, readExamples(`examples-${result}`));
  return unpacked.get(result);
}

async function readExamples(id) {
  const data = await unpack(id);
  for (const name of data.paths ? ["traces", "scores", "orders", "stops"] : []) {
    data.paths[name].starts = starts(data.paths[name].row, data.ids.length);
  }
  return data;
}

// Where the rows of each example begin, and the last ones end; rows are in the order of examples.
function starts(rows, size) {
  const made = new Int32Array(size + 1);
  for (const row of rows) made[row + 1] += 1;
  for (let at = 0; at < size; at += 1) made[at + 1] += made[at];
  return made;
}

function pair() {
  const two = picked();
  if (two.length > 1) return two.slice(0, 2);
  return [two[0], usual().find((one) => one !== two[0]) ?? two[0]];
}

const outcome = (data, part, number, example) => data.outcomes[part][number * data.ids.length + example];

function passes(data, example, one, other) {
  const right = (number) => outcome(data, "correct", number, example);
  const [mine, theirs] = [right(one), right(other)];
  const change = mine === null || theirs === null ? 0 : mine - theirs;
  if (state.show === "fix") return change > 0;
  if (state.show === "flip") return change < 0;
  if (state.show === "other") return outcome(data, "answer", one, example) !== outcome(data, "answer", other, example);
  if (state.show === "exhausted") return [one, other].some((number) => outcome(data, "ending", number, example) === 2);
  if (state.show === "none" || state.show === "some") {
    const all = current().policies.map((it, number) => (it.diagnostic ? null : right(number)))
      .filter((value) => value !== null);
    const none = all.every((value) => value === 0);
    return state.show === "none" ? none && all.length > 0 : !none && !all.every((value) => value === 1);
  }
  return true;
}

function matching(data) {
  const [one, other] = pair();
  const wanted = state.seek.toLowerCase();
  const [column, ...rest] = state.group.split("=");
  const value = rest.join("=");
  const word = (code) => (code < 0 ? "" : data.words[code]);
  return data.ids.map((_, example) => example).filter((example) =>
    (!state.group || (data.by[column] || [])[example] === value)
    && passes(data, example, one, other)
    && (!wanted || [data.ids[example], data.asked ? data.asked[example] || "" : "", word(data.gold[example]),
      word(outcome(data, "answer", one, example)), word(outcome(data, "answer", other, example))]
      .some((text) => text.toLowerCase().includes(wanted))));
}

function drawExampleControls(data) {
  const { policies } = current();
  const [one, other] = pair();
  const order = policies.map((_, number) => number);
  const choose = (id, name, number, to) => choice(id, name, policies.map((it) => it.called), order.indexOf(number), to);
  const groups = Object.entries(data.by).flatMap(([column, values]) =>
    [...new Set(values)].filter((value) => value !== null).sort().map((value) => `${column}=${value}`));
  const keys = Object.keys(SHOWN).filter((key) => !data.outcomes.quality || !["other", "none", "some"].includes(key));
  const seek = element("input", {
    id: "seek", type: "search", value: state.seek, on: { input: (event) => change({ seek: event.target.value }) },
  });
  const rest = () => picked().slice(2);
  fill("example-controls",
    choose("first", "first policy", one, (to) => change({ picked: [...new Set([to, other, ...rest()])] })),
    choose("second", "second policy", other, (to) => change({ picked: [...new Set([one, to, ...rest()])] })),
    choice("show", "examples shown", keys.map((key) => SHOWN[key]), keys.indexOf(state.show),
      (at) => change({ show: keys[at] })),
    groups.length ? choice("group", "of the group", ["all", ...groups.map((text) => text.replace("=", ": "))],
      groups.indexOf(state.group) + 1, (at) => change({ group: at ? groups[at - 1] : "" })) : null,
    element("label", { for: "seek" }, "question, id or answer with ", seek));
  const largest = [...data.strata].sort(([, one], [, other]) => other - one).slice(0, STRATA);
  const further = data.strata.length > largest.length ? [`${counted(data.strata.length - largest.length, "smaller group", "smaller groups")}`] : [];
  const strata = [...largest.map(([name, size, kept]) => `${name}: ${kept} of ${size}`), ...further].join("; ");
  const [here, total] = [data.ids.length, data.total].map((count) => count.toLocaleString("en-US"));
  const drawnOf = strata ? [`${here} of ${total} examples are here, drawn by stratum (${strata}). `
    + "All other numbers of the page are of all examples."] : [];
  if (!data.paths) {
    drawnOf.push("The result was saved without traces, so there is no picture of their order: save it with them (--traces).");
  }
  fill("example-notes", listed(drawnOf, "quiet"));
}

// What became of an answer; where no policy answers, the value of what the result is ranked by.
function sign(value, data) {
  if (value === null) return "unjudged";
  if (data.outcomes.quality) return shown({ scale: 100, decimals: 1 }, value);
  return value === 1 ? "✓ right" : value === 0 ? "✗ wrong" : `${rounded(100 * value, 0)} % right`;
}

async function drawExamples() {
  const result = state.result;
  if (!current().policies.length || !current().n) {
    fill("example-notes", "There are no examples to show.");
    for (const id of ["example-controls", "example-list", "example"]) fill(id);
    return;
  }
  const data = await examplesOf(result);
  if (result !== state.result) return;
  const held = document.activeElement && document.activeElement.id;
  if (held !== "seek") drawExampleControls(data);
  const found = matching(data);
  const [one, other] = pair();
  const word = (code) => (code < 0 ? "no answer" : data.words[code]);
  const { quality } = data.outcomes;
  const line = (example) => {
    const told = (number) => [quality ? "" : `${word(outcome(data, "answer", number, example))} `,
      element("span", { class: "mark" }, sign(outcome(data, "correct", number, example), data))];
    const id = data.ids[example];
    const chosen = state.example === id;
    const open = button(`open-${example}`, id, () => change({ example: id }));
    open.ariaPressed = String(chosen);
    return element("tr", { class: chosen ? "picked" : "" }, element("th", { scope: "row" }, open),
      ...(data.asked ? [element("td", null, data.asked[example])] : []), ...(quality ? [] : [element("td", null, word(data.gold[example]))]),
      element("td", null, ...told(one)), element("td", null, ...told(other)));
  };
  const at = found.findIndex((example) => data.ids[example] === state.example);
  const first = Math.max(0, Math.min(at < more ? 0 : at - LISTED / 2, found.length - 1));
  const heads = ["example", ...(data.asked ? ["question"] : []), ...(quality ? [] : ["gold"]),
    ...[one, other].map((number) => (quality ? `${policy(number).called}, ${quality}` : policy(number).called))];
  fill("example-list", ...tableOf(heads, found.slice(first, first + more).map(line)));
  fill("example-count", `${counted(found.length, "example")} of ${data.ids.length.toLocaleString("en-US")} here`);
  const step = (by) => {
    const to = found[at < 0 ? 0 : Math.min(Math.max(at + by, 0), found.length - 1)];
    if (to !== undefined) change({ example: data.ids[to] });
  };
  fill("example-steps",
    button("previous", "← previous", () => step(-1), at <= 0),
    button("next", "next →", () => step(1), !found.length || at === found.length - 1),
    found.length > first + more ? button("list-more", "list more", listMore) : null);
  const steps = ["previous", "next", "list-more"];
  const left = [held, ...steps].map(place).find((one) => one && !one.disabled);
  if (steps.includes(held) && left) left.focus({ preventScroll: true });
  await drawExample(data, data.ids.indexOf(state.example));
  await arrive();
}

function listMore() {
  more += 4 * LISTED;
  drawExamples();
}

// The chosen example stays in sight in the list. A link to one leads to it, once all above it has its height.
async function arrive() {
  const [list, row] = [place("example-list").parentElement, document.querySelector("#example-list tr.picked")];
  const end = row ? row.offsetTop + row.offsetHeight : 0;
  if (row && (row.offsetTop < list.scrollTop || end > list.scrollTop + list.clientHeight)) {
    list.scrollTop = row.offsetTop - list.clientHeight / 2;
  }
  if (!state.arrived) return;
  state.arrived = false;
  await Promise.all([...drawn.values()].map((one) => one.turn));
  place("example").scrollIntoView();
}
