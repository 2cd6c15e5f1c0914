// The picture of one question: its traces in order, what they answered, their scores, what was spent, and where each
// policy stopped and what it answered.

const [POLICIES, BLOCKS] = [12, 6];
let shownBlocks = [];

function rowsAt(table, example) {
  return Array.from({ length: table.starts[example + 1] - table.starts[example] }, (_, at) => table.starts[example] + at);
}

async function drawExample(data, example) {
  if (example < 0) {
    fill("example", element("p", { class: "quiet" }, state.example ? `${state.example} is not among the examples of this result that are here.` : "Choose an example of the list."));
    return;
  }
  const word = (code) => (code < 0 ? "no answer" : data.words[code]);
  const all = [...new Set([...picked(), ...pair()])];
  const numbers = all.slice(0, POLICIES);
  const { quality, units } = data.outcomes;
  const told = numbers.map((number) => {
    const value = (part) => outcome(data, part, number, example);
    const ending = value("ending");
    return [policy(number).called, ...(quality ? [] : [word(value("answer"))]), sign(value("correct"), data),
      ...units.map(([, values]) => values[number * data.ids.length + example]), value("cost"), ending < 0 ? "–" : ENDINGS[ending]];
  });
  const heads = ["policy", ...(quality ? [quality] : ["answer", "verdict"]), ...units.map(([name]) => name), data.outcomes.costs, "stopped by"];
  const cells = (row) => element("tr", null, ...row.map((value, at) => element(at ? "td" : "th",
    { scope: at ? null : "row", class: typeof value === "number" ? "right" : "left" },
    value === null || value === undefined ? "–" : typeof value === "number" ? shown({ scale: 1, decimals: Number.isInteger(value) ? 0 : 2 }, value) : value)));
  const blocks = [...(data.paths ? blocksOf(data, example, numbers) : []), ...rowBlocks(data, example, numbers)];
  scaleTogether(blocks);
  shownBlocks = blocks.slice(0, BLOCKS);
  const cut = [[POLICIES, all.length, "policies are shown"], [BLOCKS, blocks.length, "blocks are drawn; the texts below are of all"]]
    .filter(([most, count]) => count > most).map(([most, count, what]) => `${most} of ${count} ${what}.`).join(" ");
  fill("example",
    element("h3", { id: "example-title", tabIndex: -1 }, data.ids[example]),
    data.asked && data.asked[example] ? element("p", null, data.asked[example]) : null,
    quality ? null : element("p", null, element("b", null, "gold "), word(data.gold[example])),
    data.seen && data.seen[example] !== null ? element("p", { id: "seen" }, `The error can be seen from word ${data.seen[example]} on.`) : null,
    element("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "what the policies answered" }, element("table", { id: "example-outcomes" },
      ...tableOf(heads, told.map(cells)))),
    cut ? element("p", { id: "example-cut", class: "quiet" }, cut) : null,
    element("div", { id: "play-controls", class: "controls" }, othersControl(blocks), ...playControls()),
    element("div", { id: "blocks" }, ...shownBlocks.map((block, at) => (block.frame || frameOf)(block, at))),
    data.paths ? null : element("p", { class: "quiet" }, "No traces are in this result."),
    data.paths && !blocks.length && units.some(([name]) => name === "rounds") ? element("p", { class: "quiet" },
      "The rounds that these policies read are not in this result: save it again with them (--traces).") : null,
    element("div", { id: "texts" }));
  const turns = [drawBlocks()];
  if (data.texts) turns.push(drawTexts(data, example, blocks));
  await Promise.all(turns);
}

// Steps are as far apart in all blocks of a kind, and what policies answered has the same room.
function scaleTogether(blocks) {
  const kindOf = (block) => block.kind || "traces";
  for (const block of blocks) {
    const alike = blocks.filter((one) => kindOf(one) === kindOf(block));
    block.reach = Math.max(1, ...alike.map((one) => one.steps.length));
    block.longest = Math.max(0, ...alike.flatMap((one) => one.ends.map((end) => wide(end.short ?? end.said))));
  }
}

// What other policies paid of this question is shown on request.
function othersControl(blocks) {
  if (!blocks.some((block) => !block.frame)) return null;
  const box = element("input", { id: "others", type: "checkbox", checked: state.others, on: { change: (event) => change({ others: event.target.checked }) } });
  return element("label", { class: "box" }, box, " also what only other policies paid");
}

// What the data hold of a trace, by its row.
function traceAt({ paths: { traces }, words }, row) {
  if (row === undefined) return { answer: "not held", verdict: "unjudged", tokens: "–", seconds: null };
  const right = traces.correct[row];
  return {
    answer: traces.answer[row] < 0 ? "no answer" : words[traces.answer[row]],
    verdict: right === null ? "unjudged" : right === 1 ? "right" : right === 0 ? "wrong" : "part right",
    tokens: traces.tokens[row] ?? "–", seconds: traces.seconds ? traces.seconds[row] : null,
    reply: traces.reply ? traces.reply[row] : null,
  };
}

// The rows of an example's traces by slice and sample, and of its orders by number.
const traceRows = (paths, example) => new Map(rowsAt(paths.traces, example).map((row) => [`${paths.traces.slice[row]}/${paths.traces.sample[row]}`, row]));
const orderRows = (paths, example) => new Map(rowsAt(paths.orders, example).map((row) => [paths.orders.order[row], row]));

// The traces that were generated until a stop: slice and sample of each.
function tracesOfStop(paths, lists, stop) {
  const list = lists.get(paths.stops.generation[stop]);
  if (list === undefined) return [];
  return paths.orders.samples[list].slice(0, paths.stops.generated[stop]).map((sample, at) =>
    [paths.orders.slices[list] ? paths.orders.slices[list][at] : paths.orders.slice[list], sample]);
}

// What some policies walked along: an order through a slice, its traces as far as the longest went, and the stops.
function blocksOf(data, example, numbers) {
  const { paths, words } = data;
  const word = (code) => (code < 0 ? "no answer" : words[code]);
  const traces = traceRows(paths, example);
  const scores = new Map();
  for (const row of rowsAt(paths.scores, example)) {
    const key = `${paths.scores.slice[row]}/${paths.scores.sample[row]}`;
    scores.set(key, [...(scores.get(key) || []), {
      verifier: paths.verifiers[paths.scores.verifier[row]], score: paths.scores.score[row], tokens: paths.scores.tokens[row],
    }]);
  }
  const stops = rowsAt(paths.stops, example).filter((row) => numbers.includes(paths.stops.policy[row]));
  const blocks = [];
  const lists = orderRows(paths, example);
  const generated = new Set(stops.flatMap((stop) => tracesOfStop(paths, lists, stop).map((one) => one.join("/"))));
  for (const row of rowsAt(paths.orders, example)) {
    const mine = stops.filter((stop) => paths.stops.order[stop] === paths.orders.order[row]);
    if (!mine.length) continue;
    const slice = paths.orders.slice[row];
    const reach = Math.max(...mine.map((stop) => paths.stops.steps[stop]));
    const steps = paths.orders.samples[row].slice(0, state.others ? undefined : reach).map((sample, at) => {
      const of = paths.orders.slices[row] ? paths.orders.slices[row][at] : slice;  // an abandoned one lies elsewhere
      const trace = traces.get(`${of}/${sample}`);
      const spent = paths.orders.spent[row] ? paths.orders.spent[row][at] : null;
      const own = scores.get(`${of}/${sample}`) || [];
      return {
        step: at + 1, sample, slice: of, ...traceAt(data, trace), spent, each: own, opacity: at < reach ? 1 : 0.3,
        paid: at < reach ? "yes" : "only by others",
      };
    });
    const paid = new Map();  // the samples that each verifier was paid for, of those shown
    for (const stop of mine.filter((one) => paths.stops.verified[one])) {
      const list = lists.get(paths.stops.checks[stop]);
      const verifier = paths.verifiers[paths.stops.verifier[stop]];
      const samples = list === undefined ? steps.map((one) => one.sample) : paths.orders.samples[list].slice(0, paths.stops.verified[stop]);
      paid.set(verifier, new Set([...(paid.get(verifier) || []), ...samples]));
    }
    for (const one of steps) {
      one.each = one.each.map((each) => ({ ...each, opacity: paid.get(each.verifier)?.has(one.sample) ? 1 : 0.3 })).filter((each) => state.others || each.opacity === 1);
      one.scores = one.each.map((each) => `${each.verifier}: ${each.score ?? "none"}`).join(", ");
    }
    const last = (stop) => Math.max(...stops.filter((one) => paths.stops.policy[one] === paths.stops.policy[stop]).map((one) => paths.stops.part[one]));
    const ends = mine.map((stop) => {
      const number = paths.stops.policy[stop];
      const end = paths.stops.part[stop] === last(stop);
      const answer = word(outcome(data, "answer", number, example));
      const right = sign(outcome(data, "correct", number, example), data);
      const ending = outcome(data, "ending", number, example);
      const verified = paths.stops.verified[stop];
      const chose = steps.find((one) => one.slice === paths.stops.slice[stop] && one.sample === paths.stops.sample[stop]);
      return {
        number, name: policy(number).called, from: 0.5, step: paths.stops.steps[stop], steps: paths.stops.steps[stop],
        generated: paths.stops.generated[stop], answer, ending: ending < 0 ? "–" : ENDINGS[ending],
        verified: verified ? `${verified} by ${paths.verifiers[paths.stops.verifier[stop]]}` : "none",
        chosen: chose ? chose.step : 0, chose: chose ? `trace ${chose.step}` : "–",
        said: end ? `${answer} ${right}` : "goes on elsewhere", ends: end, right,
      };
    });
    ends.sort((one, other) => numbers.indexOf(one.number) - numbers.indexOf(other.number));
    blocks.push({ slice: paths.slices[slice], key: slice, rule: paths.rules[paths.orders.rule[row]], steps, ends, spent: spentOf(steps, paid), generated });
  }
  return blocks;
}

// Tokens so far along an order: of its traces alone, and with what each verifier that was paid there took.
function spentOf(steps, paid) {
  return [null, ...paid.keys()].flatMap((verifier) => {
    let verified = 0;
    const rows = steps.map((one) => {
      for (const each of one.each) {
        if (each.verifier === verifier && paid.get(verifier).has(one.sample)) verified += each.tokens ?? NaN;
      }
      const spent = one.spent === null ? NaN : one.spent + verified;
      return { step: one.step, opacity: one.opacity, series: verifier === null ? "traces" : `with ${verifier}`, spent };
    });
    return verifier === null || verified > 0 ? rows.filter((one) => Number.isFinite(one.spent)) : [];
  });
}

// By which request each of some traces came, in words.
function requestWords(steps) {
  const key = ({ slice, reply }) => `${slice}/${reply}`;
  const traces = new Map();
  for (const one of steps) traces.set(key(one), (traces.get(key(one)) || 0) + 1);
  return steps.map((one) => (one.reply === null || traces.get(key(one)) === 1 ? "alone" : `one request of ${counted(traces.get(key(one)), "trace")} here`));
}

// The lines that join neighbours of one request: from which step to which.
function requestLines(steps, words) {
  const lines = [];
  steps.forEach(({ step, slice, reply }, at) => {
    const last = lines[lines.length - 1];
    if (last && reply !== null && last.reply === reply && last.slice === slice) last.to = step + 0.4;
    else lines.push({ slice, reply, from: step - 0.4, to: step + 0.4, request: words[at] });
  });
  return lines.filter((one) => one.to - one.from > 1);
}

const verifiersOf = (block) => [...new Set(block.steps.flatMap((one) => one.each.map((each) => each.verifier)))];

function frameOf(block, at) {
  const chart = (name) => element("div", { id: `block-${at}-${name}`, class: "chart" });
  const ends = block.ends.map((end) => `${end.name} stops after ${end.steps}: ${end.said}`);
  const chosen = block.ends.some((end) => end.chosen) ? ", a ring the trace whose answer it gave" : "";
  return element("section", { class: "block" },
    element("h4", null, `${block.slice}, order ${block.rule}`),
    chart("traces"), ...verifiersOf(block).map((_, number) => chart(`scores-${number}`)), chart("spent"), chart("stops"),
    element("p", { class: "quiet" }, `A line is how far a policy went, its end where it stopped${chosen}.`),
    element("details", { id: `block-${at}-numbers` }), element("p", { class: "unseen" }, ends.join(". ")));
}

// Where the plots of a block begin and end: the same for all its parts, so that each step is one place in all.
function placesOfBlock(block, width) {
  const names = roomOf(width);
  const narrow = width < 480;  // a phone has no room at the right: what was answered stands with the name
  const longest = narrow ? 0 : block.longest;
  const room = Math.round(Math.min(longest + 14, 0.3 * width)) + 8;
  const [left, steps] = [names + 8, block.reach];
  const plot = Math.max(width - left - room, 40);
  const apart = Math.max(1, Math.ceil(steps / (plot / 30)));
  return {
    names, narrow, left, right: room, wide: plot, across: plot + names, from: -names, top: 28, bottom: 6,
    mark: Math.max(20, Math.min(150, (plot / steps) ** 2 * 0.8)), steps: [0.5, steps + 0.5],
    ticks: block.steps.map((one) => one.step).filter((step) => step === 1 || step % apart === 0), now: play.now,
  };
}

// A legend of some names beside a title, in as many rows as it takes, and the room that it has above the plot.
function legendOf(names, own) {
  const each = names.reduce((most, one) => Math.max(most, wide(one)), 0) + 34;
  const across = own.wide + own.right;
  const legend = Math.max(1, Math.min(names.length, Math.floor(across / each)));
  const rows = Math.ceil(names.length / legend);
  return { legend, label: across / legend - 24, raised: -8 - 16 * rows, top: 12 + 16 * rows };
}

function drawBlocks() {
  const there = (at) => place(`block-${at}-stops`);
  return Promise.all(shownBlocks.map((block, at) => (there(at) ? (block.draw || drawBlock)(block, at) : null)));
}

function drawBlock(block, at) {
  const own = placesOfBlock(block, place(`block-${at}-stops`).clientWidth);
  own.answers = [...new Set([...block.steps.map((one) => one.answer), ...block.ends.map((one) => one.answer)])];
  const part = (chart, number, description, more, data, heard, beside = {}) =>
    draw(`block-${at}-${chart}${number}`, chart, { ...own, ...more, description }, { [chart]: data, ...beside }, heard);
  const words = requestWords(block.steps);
  const several = words.some((one) => one !== "alone");
  const series = [...new Set(block.spent.map((one) => one.series))];
  numbersBelow(`block-${at}-numbers`, ["trace", "sample", "answer", "verdict", "scores", "tokens", "seconds", ...(several ? ["request"] : []), ...series.map((one) => `tokens so far, ${one}`)],
    block.steps.map((one, at) => [one.step, one.sample, one.answer, one.verdict, one.scores || "–", one.tokens, one.seconds, ...(several ? [words[at]] : []),
      ...series.map((name) => block.spent.find((each) => each.series === name && each.step === one.step)?.spent)]));
  const called = [...new Set(block.steps.map((one) => one.answer))];
  const traces = block.steps.map(({ each, ...rest }, at) => ({ ...rest, tokens: String(rest.tokens), seconds: String(rest.seconds ?? "–"), request: words[at], row: called.indexOf(rest.answer) }));
  const told = block.steps.slice(0, 30).map((one) => `${one.answer} (${one.verdict})`).join(", ");
  const verdicts = legendOf(["part right", "unjudged", "wrong", "right"], own);
  const turns = [part("traces", "", `Answers of ${block.steps.length} traces in order: ${told}`, { ...verdicts, called, each: 26 }, traces,
    (datum) => toText(datum.slice, datum.sample), { requests: requestLines(block.steps, words) })];
  verifiersOf(block).forEach((verifier, number) => {
    const scores = block.steps.flatMap((one) => one.each.filter((each) => each.verifier === verifier && each.score !== null)
      .map((each) => ({ verifier, score: each.score, step: one.step, sample: one.sample, opacity: each.opacity, paid: each.opacity === 1 ? "yes" : "only by others" })));
    const more = { verifier: `score by ${verifier}`, mark: Math.min(own.mark, 60) };
    turns.push(part("scores", `-${number}`, `Scores of the traces by ${verifier}`, more, scores));
  });
  if (series.length) {
    const more = { ...legendOf(series, own), series, mark: Math.min(own.mark, 40) };
    turns.push(part("spent", "", `Tokens so far of the ${series.join(", and ")}`, more, block.spent));
  }
  const short = (end, room) =>
    (end.ends ? `${cutTo(end.answer, room - wide(` ${end.right}`))} ${end.right}` : end.said);
  const below = (end) => (own.narrow ? [`→ ${short(end, own.names - 24)}`] : []);
  const lines = block.ends.map((end) => [...lined(end.name, own.names - 8), ...below(end)]);
  const left = (end) => own.wide * (1 - (end.step - 0.5) / (own.steps[1] - 0.5)) + own.right - 12;
  const stops = block.ends.map((end, row) => ({ ...end, row, words: own.narrow ? "" : short(end, left(end)) }));
  const said = block.ends.map((end) => `${end.name} stops after ${end.steps} traces and answers ${end.said}`).join("; ");
  turns.push(part("stops", "", said, { ...inRows(lines), bottom: 42 }, stops));
  return Promise.all(turns);
}
