// Two results, example by example: their paired differences, the questions whose outcome changed, and the texts of both.

const TURNED = {
  all: "every question whose outcome changed", fix: "fixes: the first result does better",
  flip: "flips: the second result does better", other: "another answer, as right as before",
};
const NAMESAKE = "the policy of the same name";
let facing = null;  // what the page knows of the two results together
let changedMore = LISTED;

async function readPair() {
  if (place("pair-0")) facing = await unpack("pair-0");
}

// By the policies of the first result, those of the second that have the same name.
function namesakes() {
  if (!facing.names) {
    const numbers = new Map(results[1].policies.map((one, number) => [one.name, number]));
    facing.names = new Map(results[0].policies.flatMap((one, number) => (numbers.has(one.name) ? [[number, numbers.get(one.name)]] : [])));
  }
  return facing.names;
}

// The pairs of policies whose outcomes are looked at, each as a number of either result.
function pairsFaced() {
  const known = namesakes();
  const { mine, theirs } = facedPolicies();
  const usualOf = ({ policies }, numbers) => numbers.filter((number) => !policies[number].diagnostic);
  const every = theirs === null ? [...known.keys()].filter((one) => !results[1].policies[known.get(one)].diagnostic) : [...results[0].policies.keys()];
  const firsts = mine === null ? usualOf(results[0], every) : [mine];
  return firsts.flatMap((one) => (theirs === null ? (known.has(one) ? [[one, known.get(one)]] : []) : [[one, theirs]]));
}

// The chosen policy of each result: null for all of the first, or for those of the same name of the second. Where no
// name is that of both, the leaders face each other.
function facedPolicies() {
  const { mine } = state;
  const alone = mine === null ? !namesakes().size : !namesakes().has(mine);
  const leader = (result) => result.leader ?? 0;
  const theirs = state.theirs ?? (alone ? leader(results[1]) : null);
  return { mine: mine === null && !namesakes().size ? leader(results[0]) : mine, theirs };
}

// The outcomes of a result on the examples that both have, once they are asked for.
function sideOf(at) {
  facing.sides ||= [];
  if (!facing.sides[at]) {
    const { outcomes, policies } = results[at];
    const [codes, count, steps] = [codesOf(outcomes), policies.length, facing.at[at]];
    let known = codes;
    if (steps) {
      known = new Int8Array(facing.n * count);
      let from = 0;
      steps.forEach((step, to) => {
        from += step;
        known.set(codes.subarray(from * count, (from + 1) * count), to * count);
      });
    }
    const { units, count: size, quantile, normal, level } = facing;
    facing.sides[at] = { estimate: facing.means[at], outcomes: { ...outcomes, known, units, count: size, quantile, normal, level, shares: null } };
  }
  return facing.sides[at];
}

// The rows of the forest, those that are drawn where they are many, and what their limits are of.
function facedRows(quality) {
  const [one] = results;
  const { theirs } = facedPolicies();
  const found = theirs === null ? { ...facing, p: facing.p_value } : facing.means ? computedDifferences(sideOf(0), sideOf(1), theirs) : null;
  if (!found) return { all: 0, rows: [], limits: `Differences to another policy are not here: ${facing.why}.` };
  const firsts = theirs === null ? facing.first : one.policies.map((_, number) => number);
  const places = firsts.map((_, at) => at).filter((at) => found.difference[at] !== null);
  const chosen = new Set(places.length > MOST_ROWS ? standingForAll(places.map((at) => firsts[at]), one).slice(0, MOST_ROWS) : firsts);
  const rows = places.filter((at) => chosen.has(firsts[at])).map((at, row) => ({
    ...differenceRow(quality, one.policies[firsts[at]].called, row, (part) => found[part]?.[at] ?? null, found.marked?.[at] ? "†" : ""), number: firsts[at], fixes: found.fixes[at], flips: found.flips[at],
  }));
  const apart = rows.filter((row) => row.told === "told apart").length;
  const few = rows.length < places.length ? ` Of ${counted(places.length, "policy", "policies")} are drawn the front, the baseline, the best and the worst of each sweep, and what is in no sweep: at most ${MOST_ROWS}.` : "";
  const limits = theirs === null ? "" : ` ${saidOfComputed(facing.level, found, sideOf(0).outcomes)}.`;
  return { all: places.length, rows, limits: `${rows.length ? `${apart} of ${counted(rows.length, "policy is", "policies are")} told apart.` : ""}${limits}${few}` };
}

function drawAgainst() {
  showPart("against-section", facing !== null);
  if (!facing) return;
  const [one, other] = results;
  const quality = one.metrics.find((known) => known.metric === one.metric);
  const { mine, theirs } = facedPolicies();
  const number = (count) => count.toLocaleString("en-US");
  const alone = [one, other].map((result, at) => `${number(facing.alone[at])} ${facing.alone[at] === 1 ? "is" : "are"} in ${result.name} alone`);
  const { rows, limits } = facedRows(quality);
  fill("against-title", `${one.name} against ${other.name}`);
  const ranked = facing.ranked ? ` ${other.name} is ranked by ${facing.ranked}.` : "";
  fill("against-said", `${one.name} is the first result, ${other.name} the second.${ranked} ${quality.label}, first minus second${quality.share ? ", in points" : ""}, over the `
    + `${counted(facing.n, "example")} that both have; ${alone.join(", ")}. ${limits}`);
  fill("against-notes", theirs === null && rows.length ? listed(facing.notes, "quiet") : null);
  const called = (result) => result.policies.map((known) => known.called);
  const known = namesakes();
  const whole = known.size ? 1 : 0;
  const same = mine === null ? whole : known.has(mine) ? 1 : 0;
  const choose = (id, name, all, result, chosen, key) => choice(id, name, [...all, ...called(result)], chosen === null ? 0 : chosen + all.length,
    (at) => change({ [key]: at < all.length ? null : at - all.length, between: null }));
  fill("against-controls",
    choose("mine", `policy of ${one.name}`, whole ? ["every policy"] : [], one, mine, "mine"),
    choose("theirs", `policy of ${other.name}`, same ? [NAMESAKE] : [], other, theirs, "theirs"));
  const name = theirs === null ? other.name : `${other.policies[theirs].called} of ${other.name}`;
  drawForest("against", rows, quality, name, theirs === null ? "No policy that sees no gold has the same name in both." : "There are no differences to draw.");
  place("against-changes-part").hidden = !rows.some((row) => row.fixes !== null);
  drawChanges("against-changes", rows, name);
}

// What changed on an example for two policies: their values and answers, and which does better; null where nothing did.
function changeOn(both, [one, other], example) {
  const values = [outcome(both[0], "correct", one, example), outcome(both[1], "correct", other, example)];
  const answers = [[one, 0], [other, 1]].map(([number, at]) => {
    const code = outcome(both[at], "answer", number, example);
    return code < 0 ? "no answer" : both[at].words[code];
  });
  const gained = values.includes(null) ? 0 : values[0] - values[1];
  const kind = gained > 0 ? "fix" : gained < 0 ? "flip" : !both[0].outcomes.quality && answers[0] !== answers[1] ? "other" : null;
  return { kind, values, answers };
}

const saidOf = (data, answer, value) => [data.outcomes.quality ? "" : `${answer} `, element("span", { class: "mark" }, sign(value, data))];

async function drawChanged() {
  if (!facing) return;
  const both = await Promise.all([examplesOf(0), examplesOf(1)]);
  const pairs = pairsFaced();
  const several = pairs.length > 1;
  const [first, second] = results;
  const wanted = (kind) => (state.turned === "all" ? kind === "fix" || kind === "flip" : kind === state.turned);
  const found = both[0].ids.flatMap((id, example) => pairs.flatMap((two) => {
    const turned = changeOn(both, two, example);
    return wanted(turned.kind) ? [{ id, example, two, ...turned }] : [];
  }));
  const faced = policiesOn(both, pairs, both[0].ids.indexOf(state.example));
  const line = ({ id, example, two, values, answers }) => {
    const chosen = state.example === id && String(two) === String(faced);
    const open = button(`changed-${two.join("-")}-${example}`, id, () => change({ example: id, between: two }));
    open.ariaPressed = String(chosen);
    const gold = both[0].gold[example];
    return element("tr", { class: chosen ? "picked" : "" }, element("th", { scope: "row" }, open), ...(several ? [element("td", { class: "named" }, ...breakable(first.policies[two[0]].called))] : []),
      ...[0, 1].map((at) => element("td", null, ...saidOf(both[at], answers[at], values[at]))),
      element("td", null, gold < 0 ? "–" : both[0].words[gold]), element("td", null, both[0].asked ? both[0].asked[example] : ""));
  };
  const keys = Object.keys(TURNED).filter((key) => key !== "other" || !both[0].outcomes.quality);
  fill("changed-controls", choice("turned", "questions shown", keys.map((key) => TURNED[key]), keys.indexOf(state.turned), (at) => change({ turned: keys[at] })),
    found.length > changedMore ? button("changed-more", "list more", () => { changedMore += 4 * LISTED; drawChanged(); }) : null);
  const questions = new Set(found.map((one) => one.example)).size;
  fill("changed-count", `${counted(found.length, "change")} on ${counted(questions, "question")} of the ${both[0].ids.length.toLocaleString("en-US")} that are here`
    + `${both[0].ids.length < facing.n ? `, of ${facing.n.toLocaleString("en-US")} that both have` : ""}${found.length > changedMore ? `; the first ${changedMore} are listed` : ""}.`);
  fill("changed-list", ...(found.length ? tableOf(["example", ...(several ? ["policy"] : []), first.name, second.name, "gold", "question"], found.slice(0, changedMore).map(line)) : []));
  await drawFacing(both, faced, both[0].ids.indexOf(state.example));
}

// The policies whose traces on an example stand side by side: those that were chosen, or the first that changed there.
function policiesOn(both, pairs, example) {
  const chosen = state.between && pairs.find((two) => String(two) === String(state.between));
  if (chosen || example < 0) return chosen || null;
  return pairs.find((two) => ["fix", "flip"].includes(changeOn(both, two, example).kind)) ?? pairs[0] ?? null;
}

// The traces that a policy paid on an example, in their order.
function tracesPaid(data, number, example) {
  const { paths } = data;
  const [rows, lists] = [traceRows(paths, example), orderRows(paths, example)];
  const stops = rowsAt(paths.stops, example).filter((row) => paths.stops.policy[row] === number).sort((one, other) => paths.stops.part[one] - paths.stops.part[other]);
  const keys = new Map(stops.flatMap((stop) => tracesOfStop(paths, lists, stop).map(([slice, sample]) => [`${slice}/${sample}`, { slice, sample }])));
  return [...keys].map(([key, one], at) => ({
    ...one, ...traceAt(data, rows.get(key)), steps: [{ at: at + 1 }], scores: {},
    chosen: stops.some((stop) => paths.stops.slice[stop] === one.slice && paths.stops.sample[stop] === one.sample),
  }));
}

// The texts of both results on an example, trace beside trace.
async function drawFacing(both, two, example) {
  if (example < 0 || !two) {
    fill("against-texts", element("p", { class: "quiet" }, "Choose a question of the list: its texts stand side by side."));
    return;
  }
  let texts;
  try {
    texts = await Promise.all(both.map(async (data, at) => (data.texts ? (await textsIn(at, data.texts[example]))[example] : null)));
  } catch {
    fill("against-texts", element("p", { role: "alert" }, GONE));
    return;
  }
  if (both[0].ids[example] !== state.example) return;
  const { values, answers } = changeOn(both, two, example);
  const paid = both.map((data, at) => (data.paths ? tracesPaid(data, two[at], example) : []));
  const head = (at) => {
    const { outcomes } = both[at];
    const cost = outcome(both[at], "cost", two[at], example);
    const name = `${results[at].name}: ${results[at].policies[two[at]].called}`;
    return element("div", null, element("h4", null, name), element("p", null, ...saidOf(both[at], answers[at], values[at]),
      cost === null ? "" : `; ${shown({ scale: 1, decimals: Number.isInteger(cost) ? 0 : 2 }, cost)} ${outcomes.costs}`),
    paid[at].length ? null : element("p", { class: "quiet" }, both[at].paths ? "It paid no trace of its own." : "No traces are in this result."));
  };
  const cell = (at, place) => {
    const one = paid[at][place];
    if (!one) return element("div");
    const slice = both[at].paths.slices[one.slice];
    const name = `${results[at].name}, ${headingOf(slice, one)}${one.chosen ? "; its answer is given" : ""}`;
    const text = texts[at]?.traces[slice]?.[one.sample];
    return text === undefined ? element("p", { class: "quiet" }, name) : textOf(name, text, `side-${at}-${place}`);
  };
  const rows = Array.from({ length: Math.max(paid[0].length, paid[1].length) }, (_, place) => [cell(0, place), cell(1, place)]).flat();
  const question = texts[0]?.question ?? texts[1]?.question ?? both[0].asked?.[example];
  fill("against-texts", element("h3", { id: "against-question" }, both[0].ids[example]),
    question ? textOf("question", question, "side-question") : null, element("div", { class: "sides" }, head(0), head(1), ...rows));
}
