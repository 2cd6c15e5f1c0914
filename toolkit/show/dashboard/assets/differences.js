// Differences to a baseline of choice, fixes and flips, and results side by side.

const [MOST_ROWS, FEW_ROWS] = [40, 20];

// The policies that others can be compared with: all, where the page has the outcomes that it takes.
function baselinesHere() {
  const { outcomes, pairs, policies } = current();
  const known = metric(current().metric);
  return outcomes && known ? policies.map((_, number) => number).filter((number) => known.estimate[number] !== null) : pairs.baselines;
}

function chosenBaseline() {
  const baselines = baselinesHere();
  const wanted = state.baseline ?? current().baseline ?? current().leader;
  return baselines.includes(wanted) ? wanted : baselines[0];
}

// The policies that charts of one policy a row show: those that are picked, or all if they are few, or else those that
// stand for the rest.
function rowsOf(numbers) {
  if (state.picked.length > 2) return numbers.filter((number) => state.picked.includes(number)).slice(0, MOST_ROWS);
  if (numbers.length <= FEW_ROWS) return numbers;
  const chosen = new Set(standingForAll(numbers).slice(0, MOST_ROWS));
  return numbers.filter((number) => chosen.has(number));
}

// The front, the leader, the baseline, the best and the worst of each sweep, and then what is in no sweep.
function standingForAll(numbers, result = current()) {
  const ranked = [...numbers].sort((one, other) => one - other);
  const sweeps = new Map();
  for (const number of ranked) {
    const at = sweepOf(number, result);
    if (at !== undefined) sweeps.set(at, [...(sweeps.get(at) || []), number]);
  }
  const front = ranked.filter((number) => result.policies[number].front || result.policies[number].leads || number === result.baseline);
  return [...new Set([...front, ...[...sweeps.values()].flatMap((of) => [of[0], of.at(-1)]), ...ranked.filter((number) => sweepOf(number, result) === undefined)])];
}

function drawBaselines() {
  const { left } = current().pairs;
  const baselines = baselinesHere();
  const at = baselines.indexOf(chosenBaseline());
  fill("difference-controls", baselines.length
    ? choice("baseline", "compared with", baselines.map((one) => policy(one).called), at, (to) => change({ baseline: baselines[to] }))
    : null, left ? element("p", { class: "quiet" }, `${counted(left, "policy is", "policies are")} no baseline here: `
      + "the page has room for the differences to the others alone.") : null);
}

function drawDifferences() {
  const found = current();
  const base = chosenBaseline();
  const quality = metric(found.metric);
  if (base === undefined || !quality || found.policies.length < 2) {
    for (const id of ["forest", "changes"]) absent(id, "There are no two policies to compare.");
    withoutNumbers("forest", "changes");
    fill("forest-said");
    return;
  }
  const differences = differencesTo(base);
  const told = (part, number) => differences[part]?.[number] ?? null;
  const all = passing().filter((number) => number !== base && told("difference", number) !== null);
  const rows = rowsOf(all).map((number, row) => ({
    ...differenceRow(quality, policy(number).called, row, (part) => told(part, number)), number, fixes: told("fixes", number), flips: told("flips", number),
  }));
  const name = policy(base).called;
  const limits = differences.limited ? `${limitsOf(base, differences)} ${apartOf(rows, all)}`
    : `No limits: so many policies have them to the baseline of the result alone.${fewOf(rows, all)}`;
  fill("forest-said", `${quality.label}, policy minus ${name}${quality.share ? ", in points" : ""}. ${limits}`);
  drawForest("forest", rows, quality, name, "No policy passes the filters.");
  place("changes-part").hidden = !found.pairs.fixes.flat().some((count) => count !== null) && !rows.some((one) => one.fixes !== null);
  drawChanges("changes", rows, name);
}

// A row of a forest of differences. `value`: what is known of it, by the name of the part; `mark`: that of a note.
function differenceRow(quality, name, row, value, mark = "") {
  const scaled = (part) => (value(part) === null ? null : value(part) * quality.scale);
  const p = value("p");
  return {
    row, name, difference: scaled("difference"), low: scaled("low"), high: scaled("high"),
    said: withLimits(quality, value("difference"), value("low"), value("high"), true) + (value("few") ? " (few)" : "") + mark,
    p: p === null ? "–" : p < 1e-4 ? "< .0001" : shown({ scale: 1, decimals: 4 }, p),
    few: value("few") === true, told: value("low") === null ? "no limits" : value("differs") ? "told apart" : "not told apart",
  };
}

const forests = new Map();  // by chart: the rows of its forest

// The forest of some rows, each minus what is called `name`, and its numbers below.
function drawForest(at, rows, quality, name, none) {
  forests.set(at, rows);
  const title = `Δ ${quality.share ? "points" : quality.label}, minus ${name}`;
  for (const one of rows) one.tip = { policy: one.name, [title]: one.said, p: one.p };
  if (!rows.length) absent(at, none);
  else {
    const own = { difference: title, description: `Differences of ${counted(rows.length, "policy", "policies")} to ${name}`, called: rows.map((one) => one.name) };
    draw(at, "forest", own, { rows, zero: [{ zero: 0 }] });
  }
  numbersBelow(`${at}-numbers`, ["policy", title, "p", "told"], rows.map((one) => [one.name, one.said, one.p, one.few ? "few" : one.told]));
}

// The fixes and flips of some rows, where they are known.
function drawChanges(at, rows, name) {
  const counts = rows.filter((one) => one.fixes !== null);
  const bars = counts.flatMap((one, row) => [
    { row, name: one.name, change: "fixes", count: one.fixes, text: one.fixes.toLocaleString("en-US") },
    { row, name: one.name, change: "flips", count: -one.flips, text: one.flips.toLocaleString("en-US") },
  ]);
  if (!bars.length) absent(at, "No fixes and flips are known here.");
  else {
    const ends = 8 + Math.max(...bars.map((one) => wide(one.text)));
    const description = `Fixes and flips of ${counted(rows.length, "policy", "policies")} against ${name}`;
    draw(at, "changes", { description, called: counts.map((one) => one.name), ends }, { changes: bars });
  }
  numbersBelow(`${at}-numbers`, ["policy", "fixes", "flips"], counts.map((one) => [one.name, one.fixes, one.flips]));
}

function apartOf(rows, all) {
  const count = rows.filter((one) => one.told === "told apart").length;
  return `${count} of ${counted(rows.length, "policy is", "policies are")} told apart from it.${fewOf(rows, all)}`;
}

// Which of all policies are drawn, where some are not.
function fewOf(rows, all) {
  if (all.length <= rows.length) return "";
  return ` Of ${all.length} policies are drawn ${state.picked.length > 2 ? "the picked ones"
    : `the front, the baseline, the best and the worst of each sweep, and what is in no sweep${rows.length < MOST_ROWS ? "" : `: at most ${MOST_ROWS}`}`}.`;
}

// What limits are of: those that are saved, or those that the page has computed, and against whom there are others.
function limitsOf(base, differences) {
  const { baseline, level, outcomes, pairs } = current();
  if (!differences.computed) {
    return `${100 * level} % limits as the result has them, which hold for all ${base === baseline ? "differences to it" : "pairs of policies"} at once.`;
  }
  const saved = pairs.baselines.filter((_, at) => pairs.low[at].some((low) => low !== null));
  return `${saidOfComputed(level, differences, outcomes)}; `
    + (saved.length ? `the saved limits, which hold at once, are those against ${saved.slice(0, 3).map((one) => policy(one).called).join(", ")}${saved.length > 3 ? ", …" : ""}.`
      : "no limits are saved.");
}

const metricOf = (result, name) => result.metrics.find((one) => one.metric === name);

// What several results are shown side by side by, the chosen one first: what ranks, and the costs, which another has, too.
function sideForms() {
  const forms = [metric(current().metric), ...costs()].filter((one) => one && results.some((other) => other !== current() && metricOf(other, one.metric)));
  const named = (name) => forms.find((one) => one.metric === name);
  return { forms, form: named(state.side) || named(current().metric) || forms[0] };
}

// Several results: the policies of one name beside each other, by what they are ranked by or by a cost.
function drawResults() {
  showPart("results-section", results.length > 1);
  if (results.length < 2) return;
  const { forms, form } = sideForms();
  fill("results-controls", forms.length > 1 ? choice("side", "side by side", forms.map((one) => one.label),
    forms.indexOf(form), (at) => change({ side: forms[at].metric })) : null);
  drawEachResult();
  if (!form) {
    absent("results", "The results have no number in common.");
    withoutNumbers("results");
    fill("results-said");
    return;
  }
  const called = new Map(results.flatMap((one) => one.policies.map((other) => [other.name, other.called])));
  const cell = (result, name) => {
    const number = result.policies.findIndex((one) => one.name === name);
    const values = metricOf(result, form.metric);
    return number < 0 || !values || values.estimate[number] === null ? null
      : { value: values.estimate[number], low: values.low[number], high: values.high[number] };
  };
  const shared = [...called.keys()].filter((name) => results.filter((one) => cell(one, name)).length > 1);
  const all = shared.length ? shared : [...called.keys()];
  const kept = all.slice(0, MOST_ROWS);
  const scaled = (value) => (value === null ? null : value * form.scale);
  const told = (found) => (found ? withLimits(form, found.value, found.low, found.high) : "–");
  const rows = kept.flatMap((name) => results.map((result) => ({ result, found: cell(result, name) }))
    .filter((one) => one.found).map(({ result, found }) => ({
      row: kept.indexOf(name), name: called.get(name), result: result.name, value: scaled(found.value),
      low: scaled(found.low), high: scaled(found.high), told: told(found),
    })));
  const matched = shared.length ? "Policies are matched by their names" : "No policy has the same name in two results";
  fill("results-said", `${form.axis}. ${matched}; `
    + `each interval is of its own result, and says nothing of their difference.${all.length > kept.length ? ` Of ${all.length} the first are drawn.` : ""}`);
  draw("results", "results", {
    quality: form.axis, series: results.map((one) => one.name), called: kept.map((name) => called.get(name)),
    each: 16 * results.length, description: `${form.label} of ${kept.length} policies in ${results.length} results`,
  }, { results: rows });
  numbersBelow("results-numbers", ["policy", ...results.map((one) => one.name)],
    kept.map((name) => [called.get(name), ...results.map((one) => told(cell(one, name)))]));
}

function drawEachResult() {
  const line = (one, at) => [
    element("th", { scope: "row" }, button(`result-${at}`, one.name, () => change({ result: at }))),
    one.log, element("td", { class: "right" }, one.n.toLocaleString("en-US")), one.takeaway,
  ];
  fill("results-table", ...tableOf(["result", "log", "examples", "what it says"], results.map(line)));
}
