// Differences to a baseline of choice, fixes and flips, and results side by side.

const MOST_ROWS = 40;

function chosenBaseline() {
  const { baselines } = current().pairs;
  const wanted = state.baseline ?? current().baseline ?? current().leader;
  return baselines.includes(wanted) ? wanted : baselines[0];
}

// The policies that charts of one policy a row show: those of the table as it is filtered, the first ones.
function rowsOf(numbers) {
  const chosen = state.picked.length > 2 ? numbers.filter((number) => state.picked.includes(number)) : numbers;
  return chosen.slice(0, MOST_ROWS);
}

function drawBaselines() {
  const { baselines, left } = current().pairs;
  const at = baselines.indexOf(chosenBaseline());
  fill("difference-controls", baselines.length
    ? choice("baseline", "compared with", baselines.map((one) => policy(one).called), at, (to) => change({ baseline: baselines[to] }))
    : null, left ? element("p", { class: "quiet" }, `${counted(left, "policy is", "policies are")} no baseline here: `
      + "the page has room for the differences to the others alone.") : null);
}

function drawDifferences() {
  const found = current();
  const { pairs } = found;
  const base = chosenBaseline();
  const quality = metric(found.metric);
  if (base === undefined || !quality || found.policies.length < 2) {
    for (const id of ["forest", "changes"]) absent(id, "There are no two policies to compare.");
    for (const id of ["forest-numbers", "changes-numbers", "forest-said"]) fill(id);
    return;
  }
  const at = pairs.baselines.indexOf(base);
  const whole = base === found.baseline;
  const points = { ...quality, label: quality.share ? "points" : quality.label };
  const told = (part, number) => pairs[part][at][number];
  const chance = (p) => (p === null ? "–" : p < 1e-4 ? "< .0001" : p.toFixed(4));
  const all = passing().filter((number) => number !== base && told("difference", number) !== null);
  const rows = rowsOf(all).map((number, row) => {
    const scaled = (part) => (told(part, number) === null ? null : told(part, number) * quality.scale);
    const apart = told("differs", number);
    return {
      row, name: policy(number).called, difference: scaled("difference"), low: scaled("low"), high: scaled("high"),
      said: withLimits(quality, told("difference", number), told("low", number), told("high", number), true),
      p: chance(told("p", number)), fixes: told("fixes", number), flips: told("flips", number),
      told: told("low", number) === null ? "no limits" : apart ? "told apart" : "not told apart",
    };
  });
  const name = policy(base).called;
  const limited = pairs.low[at].some((low) => low !== null);
  const many = whole ? "differences to it" : "pairs of policies";
  const limits = limited ? `${100 * found.level} % limits that hold for all ${many} at once. ${apartOf(rows, all)}`
    : `No limits: so many policies have them to the baseline of the result alone.${fewOf(rows, all)}`;
  fill("forest-said", `${quality.label}, policy minus ${name}${quality.share ? ", in points" : ""}. ${limits}`);
  const title = `Δ ${points.label}, minus ${name}`;
  for (const one of rows) one.tip = { policy: one.name, [title]: one.said, p: one.p };
  const these = counted(rows.length, "policy", "policies");
  if (!rows.length) absent("forest", "No policy passes the filters.");
  else {
    const own = { difference: title, description: `Differences of ${these} to ${name}`, called: rows.map((one) => one.name) };
    draw("forest", "forest", own, { rows, zero: [{ zero: 0 }] });
  }
  numbersBelow("forest-numbers", ["policy", title, "p", "told"], rows.map((one) => [one.name, one.said, one.p, one.told]));
  const counts = rows.filter((one) => one.fixes !== null);
  const bars = counts.flatMap((one, row) => [
    { row, name: one.name, change: "fixes", count: one.fixes, text: one.fixes.toLocaleString("en-US") },
    { row, name: one.name, change: "flips", count: -one.flips, text: one.flips.toLocaleString("en-US") },
  ]);
  place("changes-part").hidden = !pairs.fixes.flat().some((count) => count !== null);
  if (!bars.length) absent("changes", "No fixes and flips are known here.");
  else {
    const ends = 8 + Math.max(...bars.map((one) => wide(one.text)));
    const called = counts.map((one) => one.name);
    draw("changes", "changes", { description: `Fixes and flips of ${these} against ${name}`, called, ends }, { changes: bars });
  }
  numbersBelow("changes-numbers", ["policy", "fixes", "flips"], counts.map((one) => [one.name, one.fixes, one.flips]));
}

function apartOf(rows, all) {
  const few = state.picked.length > 2 ? "picked ones" : "first";
  const count = rows.filter((one) => one.told === "told apart").length;
  return `${count} of ${counted(rows.length, "policy is", "policies are")} told apart from it.${fewOf(rows, all, few)}`;
}

const fewOf = (rows, all, few = "first") => (all.length > rows.length ? ` Of ${all.length} the ${few} are drawn.` : "");

// Several results: the policies of one name beside each other, by what they are ranked by or by a cost.
function drawResults() {
  showPart("results-section", results.length > 1);
  if (results.length < 2) return;
  const held = (result, name) => result.metrics.find((one) => one.metric === name);
  const forms = [metric(current().metric), ...costs()].filter((one) => one
    && results.some((other) => other !== current() && held(other, one.metric)));
  const named = (name) => forms.find((one) => one.metric === name);
  const form = named(state.side) || named(current().metric) || forms[0];
  fill("results-controls", forms.length > 1 ? choice("side", "side by side", forms.map((one) => one.label),
    forms.indexOf(form), (at) => change({ side: forms[at].metric })) : null);
  drawEachResult();
  if (!form) {
    absent("results", "The results have no number in common.");
    for (const id of ["results-numbers", "results-said"]) fill(id);
    return;
  }
  const called = new Map(results.flatMap((one) => one.policies.map((other) => [other.name, other.called])));
  const cell = (result, name) => {
    const number = result.policies.findIndex((one) => one.name === name);
    const values = held(result, form.metric);
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
    + `each interval is of its own result, and says nothing of their difference.${fewOf(kept, all)}`);
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
