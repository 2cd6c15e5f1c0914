// What stands beside each chart to be copied: its numbers as LaTeX, its figure as SVG, and the command that draws it.

const COMMANDS = {
  plane: (name) => `thinkback figure ${name} frontier --out frontier.pdf`,
  forest: (name) => `thinkback figure ${name} forest --out forest.pdf --baseline ${shellWord(policy(chosenBaseline()).name)}`,
  changes: (name) => `thinkback compare ${name}`,
  headroom: (name) => `thinkback figure ${name} headroom --out headroom.pdf`,
  results: () => `thinkback compare ${results.slice(0, 2).map((one) => shellWord(one.name)).join(" --with ")}`,
  against: () => COMMANDS.results(),
  "against-changes": () => COMMANDS.results(),
};
const tables = new Map();  // by chart: the heads and the rows of its numbers

// A word of a command line, quoted where a shell would read more into it.
const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const LATEX = {
  "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_",
  "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
  "−": "$-$", "–": "--", "Δ": "$\\Delta$", "€": "\\texteuro{}", "×": "$\\times$", "†": "$\\dagger$", "…": "\\ldots{}",
};

const latexText = (value) => (value === null || value === undefined ? "--"
  : visible(String(value)).replace(/\s+/g, " ").replace(/[\\{}&%$#_~^<>−–Δ€×†…]/g, (sign) => LATEX[sign]));

// A table for LaTeX with booktabs: texts at the left, numbers at the right.
function latexTable(heads, rows) {
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

function copiesBeside(id, chart, of, heads, rows) {
  tables.set(chart, { heads, rows });
  if (place(`${chart}-copies`)) return;
  const said = element("output", { id: `${chart}-copied` });
  const copies = (what, text) => {
    const heard = async () => {
      const copied = text();
      if (copied) await copyText(await copied);
      said.textContent = copied ? `${what} is copied` : "there is no figure";
    };
    const made = button(`${chart}-copy-${what}`, what, heard);
    made.setAttribute("aria-label", `copy ${of} as ${what}`);
    return made;
  };
  const latex = copies("LaTeX", () => latexTable(tables.get(chart).heads, tables.get(chart).rows));
  const figure = place(chart) ? copies("figure", () => drawn.get(chart)?.view?.toSVG()) : null;
  const command = COMMANDS[chart] ? copies("command", () => COMMANDS[chart](shellWord(current().name))) : null;
  place(id).before(element("div", { id: `${chart}-copies`, class: "copies" }, "copy as ", latex, ...[figure, command].filter(Boolean), said));
}
