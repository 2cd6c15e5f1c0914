// The page of a log that grows: it asks for the state, and writes numbers where they belong. Texts are set as texts.

const place = (id) => document.getElementById(id);
const count = (number) => Math.round(number).toLocaleString("en-US");
const percent = (share) => numberFormat(1).format(rounded(100 * share, 1));
const several = (number, one, more) => `${count(number)} ${number === 1 ? one : more}`;
let chosen = null;

// An amount with three digits at least, none of them of an exponent.
function money(amount) {
  const decimals = amount > 0 ? Math.max(0, 2 - Math.floor(Math.log10(amount))) : 2;
  return numberFormat(decimals).format(rounded(amount, decimals));
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function time(seconds) {
  if (seconds < 90) return several(seconds, "second", "seconds");
  return seconds < 5400 ? several(seconds / 60, "minute", "minutes") : `${numberFormat(1).format(rounded(seconds / 3600, 1))} hours`;
}

function tableOf(caption, heads, rows) {
  const table = element("table", null);
  table.append(element("caption", caption, { class: "unseen" }));
  const head = element("tr", null);
  heads.forEach((text) => head.append(element("th", text, { scope: "col" })));
  table.append(element("thead", null), element("tbody", null));
  table.tHead.append(head);
  for (const [first, ...cells] of rows) {
    const row = element("tr", null);
    row.append(element("th", first, { scope: "row" }));
    for (const cell of cells) {
      const made = element("td", typeof cell === "string" ? cell : null);
      if (typeof cell !== "string" && cell) made.append(cell);
      row.append(made);
    }
    table.tBodies[0].append(row);
  }
  return table;
}

function drawRun(state) {
  const facts = [["traces", state.expected ? `${count(state.traces)} of ${count(state.expected)}` : count(state.traces)]];
  if (state.per_minute !== null) facts.push(["traces a minute", count(state.per_minute)]);
  if (state.left_s !== null) facts.push(["left, at this pace", time(state.left_s)]);
  if (state.cost !== null) facts.push([`cost so far, ${state.currency || "as billed"}`, money(state.cost)]);
  if (state.completion_tokens !== null) facts.push(["tokens written", count(state.completion_tokens)]);
  if (state.prompt_tokens !== null) facts.push(["prompt tokens", count(state.prompt_tokens)]);
  facts.push(["questions in the log", count(state.examples)]);
  place("run").replaceChildren(...facts.map(([name, value]) => {
    const pair = element("div", null);
    pair.append(element("dt", name), element("dd", value));
    return pair;
  }));
}

function drawFailures(state) {
  const calls = state.failures.reduce((sum, one) => sum + one.calls, 0);
  place("failed-said").textContent = calls ? `${several(calls, "call", "calls")} failed.` : "No call failed.";
  place("failed").hidden = !calls;
  place("failed").replaceChildren(tableOf("What failed", ["cause", "calls", "asked again", "the first reason"],
    state.failures.map((one) => [one.cause, count(one.calls), one.again ? "by the next run" : "no", one.reason])));
}

function spanOf(row) {
  if (row.low === null) return null;
  const picture = drawing("svg", { viewBox: "0 0 100 8", class: "span", "aria-hidden": "true", preserveAspectRatio: "none" });
  picture.append(drawing("line", { x1: 0, x2: 100, y1: 7.5, y2: 7.5, "stroke-width": 0.5 }),
    drawing("rect", { x: 100 * row.low, width: 100 * (row.high - row.low), y: 2, height: 3 }),
    drawing("circle", { cx: 100 * row.accuracy, cy: 3.5, r: 1.5 }));
  return picture;
}

function drawAccuracy(state) {
  const sets = [...new Set(state.policies.map((row) => row.dataset))];
  if (!sets.includes(chosen)) chosen = sets[0];
  const rows = state.policies.filter((row) => row.dataset === chosen);
  const level = `${Math.round(100 * state.level)} %`;
  let said = state.waits;
  if (rows.length) {
    said = `${several(rows[0].counted, "question", "questions")} whose rows are complete`
      + (sets.length > 1 ? ` of ${chosen}` : "") + `. Limits: each policy's hold at every look at once, at ${level}, `
      + "for questions that come in no order; a dash where these come in one, or in clusters.";
  }
  place("accuracy-said").textContent = said;
  place("accuracy").hidden = !rows.length;
  place("accuracy").replaceChildren(tableOf("Accuracy so far",
    ["policy", "accuracy %", "limits %", "0 to 100 %", "tokens", "questions"],
    rows.map((row) => [row.policy + (row.diagnostic ? " (sees gold)" : ""), percent(row.accuracy),
      row.low === null ? "–" : `[${percent(row.low)}, ${percent(row.high)}]`, spanOf(row),
      row.tokens === null ? "–" : count(row.tokens), count(row.counted)])));
  if (place("choice").childElementCount !== (sets.length > 1 ? 1 : 0) || place("choice").dataset.sets !== sets.join("\n")) {
    place("choice").dataset.sets = sets.join("\n");
    const label = element("label", "data set ");
    const list = element("select", null);
    sets.forEach((name) => list.append(element("option", name)));
    list.value = chosen;
    list.addEventListener("change", () => { chosen = list.value; drawAccuracy(last); });
    label.append(list);
    place("choice").replaceChildren(...(sets.length > 1 ? [label] : []));
  }
  place("notes").replaceChildren(...state.notes.map((text) => element("li", text)));
}

let last = null;

function drawState(state) {
  const same = last && JSON.stringify(last) === JSON.stringify(state);
  last = state;
  if (place("status").textContent !== state.status) place("status").textContent = state.status;
  if (same) return;
  drawRun(state);
  drawFailures(state);
  drawAccuracy(state);
}

async function follow() {
  try {
    const reply = await fetch("state", { cache: "no-store" });
    if (reply.ok) drawState(await reply.json());
  } catch (gone) {
    place("status").textContent = "The command that serves this page has ended; these are its last numbers.";
    return;
  }
  setTimeout(follow, Number(document.body.dataset.every));
}

follow();
