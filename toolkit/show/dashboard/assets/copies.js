// What stands beside each chart to be copied: its numbers as LaTeX, its figure as SVG, and a command that gives the same.

// A word of a command line, quoted where a shell would read more into it.
const shellWord = (text) => (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const commandLine = (...words) => ["thinkback", ...words].map(shellWord).join(" ");
const option = (name, value) => (value.startsWith("-") ? [`${name}=${value}`] : [name, value]);
const operands = (...names) => (names.some((name) => name.startsWith("-")) ? ["--", ...names] : names);
const sqlText = (text) => `'${text.replaceAll("'", "''")}'`;

const figureCommand = (name, ...more) => commandLine("figure", current().path, name, "--out", `${name}.pdf`, ...more);
const queryCommand = (result, sql) => commandLine("query", result.path, sql);
const oneOf = (numbers) => `IN (${numbers.map((number) => sqlText(policy(number).name)).join(", ")})`;
const summaryOf = (form, more = "") => `SELECT policy, estimate, low, high FROM summary WHERE metric = ${sqlText(form.metric)}${more}`;

// A line for each pair of policies, which compares it alone.
function pairCommands(pairs, first, second = null) {
  const other = second ? option("--with", second.path) : [];
  return pairs.map((names) => commandLine("compare", first.path, ...other, ...operands(...names))).join("\n") || null;
}

const MOST_PAIRED = 1000;  // policies that are compared at once, as in toolkit/stats

// Accuracy against the chosen cost, of a share; there is no front where all cost the same.
function frontierCommand() {
  const [quality, cost] = [metric(current().metric), chosenCost()];
  const paid = cost.estimate.filter((value, number) => value !== null && quality.estimate[number] !== null && !policy(number).diagnostic);
  const apart = paid.length < 2 || Math.max(...paid) - Math.min(...paid) > 1e-9 * Math.max(...paid.map(Math.abs));
  return quality.share && apart ? figureCommand("frontier", ...option("--cost", cost.metric)) : null;
}

// The forest to the baseline of the result, or to one whose limits are of all pairs; else a line for each row.
function forestCommand() {
  const base = policy(chosenBaseline());
  const few = current().policies.filter((one) => !one.diagnostic).length <= MOST_PAIRED;
  if (chosenBaseline() === current().baseline || (few && !base.diagnostic)) return figureCommand("forest", ...option("--baseline", base.name));
  return pairCommands(forests.get("forest").map(({ number }) => [policy(number).name, base.name]), current());
}

// How many examples each policy alone gets right, and how many the baseline alone.
function changesCommand() {
  const counts = ["fixes", "flips"].map((name, at) => `sum(CASE WHEN one.correct ${"><"[at]} base.correct THEN 1 ELSE 0 END) AS ${name}`);
  const numbers = forests.get("forest").filter((one) => one.fixes !== null).map(({ number }) => number);
  return queryCommand(current(), `SELECT one.policy, ${counts.join(", ")} FROM outcomes AS one JOIN outcomes AS base ON one.example_id = base.example_id `
    + `WHERE base.policy = ${sqlText(policy(chosenBaseline()).name)} AND one.policy ${oneOf(numbers)} GROUP BY one.policy`);
}

// Policies of one name all at once; with a chosen one of the second result a line for each row.
function againstCommand() {
  const [one, other] = results;
  const { theirs } = facedPolicies();
  if (theirs === null) return commandLine("compare", one.path, ...option("--with", other.path), "--same-names");
  return pairCommands(forests.get("against").map(({ number }) => [one.policies[number].name, other.policies[theirs].name]), one, other);
}

// The settings that a slider's chart has; of a gate the curve over its thresholds.
function sweepCommand(at) {
  const { sweep, policy: numbers, means } = current().sweeps[at];
  if (Object.keys(means).length) return figureCommand("gates", ...option("--policy", sweep));
  return queryCommand(current(), summaryOf(metric(current().metric), ` AND policy ${oneOf(numbers)}`));
}

// The rows of a question that a block shows, of the tables that they were saved in or that the log has.
function blockCommand(at) {
  const { kind, slice, hop } = shownBlocks[at];
  const example = `example_id = ${sqlText(state.example)}`;
  const hops = hop === undefined ? "" : ` AND hop = ${hop}`;
  if (kind) return queryCommand(current(), `SELECT * FROM ${kind} WHERE ${example} AND pool = ${sqlText(slice)}${hops} ORDER BY round`);
  const columns = "sample, answer, correct, prompt_tokens, completion_tokens";
  return queryCommand(current(), `SELECT ${columns} FROM paid_traces WHERE ${example} AND slice = ${sqlText(slice)} ORDER BY sample`);
}

const COMMANDS = {
  plane: frontierCommand,
  forest: forestCommand, changes: changesCommand, against: againstCommand, "against-changes": againstCommand,
  headroom: () => (current().headroom.parts ? figureCommand("headroom") : null), captured: () => COMMANDS.headroom(),
  curves: () => current().curvesCommand && `${current().curvesCommand} ${option("--pool", curvePools().pool).map(shellWord).join(" ")}`,
  results: () => results.map((one) => queryCommand(one, summaryOf(sideForms().form))).join("\n"),
  sweep: sweepCommand, block: blockCommand,
};

// The command of a chart, null where there is none. Results that are not saved have none.
function commandOf(chart) {
  const [name, at] = chart.match(/^(sweep|block)-(\d+)$/)?.slice(1) ?? [chart];
  return (name === "results" || name.startsWith("against") ? results : [current()]).every((one) => one.path) ? COMMANDS[name](at) : null;
}

// The pictures of a chart as one SVG: those of a question's block below one another.
async function figureOf(chart) {
  const places = document.querySelectorAll(chart.startsWith("block-") ? `[id^="${chart}-"].chart` : `#${chart}`);
  const views = [...places].map((one) => drawn.get(one.id)?.view).filter(Boolean);
  const pictures = await Promise.all(views.map((view) => view.toSVG()));
  if (pictures.length < 2) return pictures[0];
  const size = (text, name) => Number(text.match(new RegExp(` ${name}="([\\d.]+)"`))[1]);
  const width = Math.max(...pictures.map((text) => size(text, "width")));
  let height = 0;
  const parts = pictures.map((text) => {
    const part = text.replace("<svg ", `<svg y="${height}" `);
    height += size(text, "height");
    return part;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${parts.join("")}</svg>`;
}

const LATEX = {
  "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_",
  "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
  "−": "$-$", "–": "--", "Δ": "$\\Delta$", "€": "\\texteuro{}", "×": "$\\times$", "†": "$\\dagger$", "…": "\\ldots{}",
};

const latexText = (value) => (value === null || value === undefined ? "--"
  : visible(String(value)).replace(/\s+/g, " ").replace(/[\\{}&%$#_~^<>−–Δ€×†…]/g, (sign) => LATEX[sign]));

// A table for LaTeX with booktabs: texts at the left, numbers at the right.
function latexTable({ heads, rows }) {
  const numeric = (at) => at > 0 && rows.every((row) => /^[-+−–\d<]/.test(String(row[at] ?? "–")));
  const line = (cells) => `${cells.map(latexText).join(" & ")} \\\\`;
  return [`\\begin{tabular}{${heads.map((_, at) => (numeric(at) ? "r" : "l")).join("")}}`, "\\toprule", line(heads), "\\midrule",
    ...rows.map(line), "\\bottomrule", "\\end{tabular}", ""].join("\n");
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // where the browser has no clipboard for pages from disk
    const area = element("textarea", { class: "unseen", "aria-hidden": "true" });
    const held = document.activeElement;
    document.body.append(area);
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
    held.focus({ preventScroll: true });
  }
}

const tables = new Map();  // by chart: the heads and the rows of its numbers

function copiesBeside(id, chart, of, heads, rows) {
  tables.set(chart, { heads, rows });
  if (place(`${chart}-copies`)) {
    place(`${chart}-copies`).hidden = false;
    return;
  }
  const said = element("output", { id: `${chart}-copied` });
  const texts = { LaTeX: () => latexTable(tables.get(chart)), figure: () => figureOf(chart), command: () => commandOf(chart) };
  const copies = Object.entries(texts).map(([what, text]) => {
    const heard = async () => {
      const copied = await text();
      if (copied) await copyText(copied);
      said.textContent = copied ? `${what} is copied` : `there is no ${what}`;
    };
    const made = button(`${chart}-copy-${what}`, what, heard);
    made.setAttribute("aria-label", `copy ${of} as ${what}`);
    return made;
  });
  place(id).before(element("div", { id: `${chart}-copies`, class: "copies" }, "copy as ", ...copies, said));
}
