// Vega-Lite charts: the page gives them data, and a table of the same numbers stands below each.

const SPECS = ready("charts");
const drawn = new Map();
const OPTIONS = {
  ast: true, renderer: "svg", actions: false, defaultStyle: false, mode: "vega-lite", logLevel: 1,
};

// A chart's description with its own titles and lists: "@cost" and {expr: "@steps"} stand for them.
function filled(part, own) {
  if (typeof part === "string") return part.startsWith("@") ? own[part.slice(1)] ?? "" : part;
  if (Array.isArray(part)) return part.map((one) => filled(one, own));
  if (part === null || typeof part !== "object") return part;
  if (typeof part.expr === "string" && part.expr.startsWith("@")) return own[part.expr.slice(1)];
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, filled(value, own)]));
}

// One chart in one place: what is asked last is drawn last, and data alone change without a new chart.
async function draw(at, chart, own, data, heard) {
  const before = drawn.get(at) || { turn: Promise.resolve() };
  const width = place(at).clientWidth;
  own = { names: Math.round(Math.min(240, width * 0.3)), legend: Math.max(2, Math.floor(width / 160)),
    words: Math.round(0.45 * width), ...own };
  const wanted = JSON.stringify([chart, own, Object.entries(data).map(([name, rows]) => [name, rows.length > 0])]);
  const next = { ...before, wanted };
  next.turn = before.turn.then(async () => {
    if (drawn.get(at) !== next) return;
    if (before.made === wanted && before.view) {
      for (const [name, rows] of Object.entries(data)) before.view.data(name, copied(rows));
      await before.view.runAsync();
    } else {
      if (before.view) before.view.finalize();
      const spec = filled(SPECS[chart], own);
      spec.datasets = Object.fromEntries(Object.entries(data).map(([name, rows]) => [name, copied(rows)]));
      const inner = element("div", { class: "drawing" });
      place(at).replaceChildren(inner);
      const made = await vegaEmbed(inner, spec, { ...OPTIONS, tooltip: tip });
      next.view = made.view;
      if (heard) next.view.addEventListener("click", (event, item) => item && item.datum && heard(item.datum));
    }
    next.made = wanted;
    tidied(at);
  });
  drawn.set(at, next);
  return next.turn;
}

const copied = (rows) => rows.map((row) => ({ ...row }));

// Vega names every mark for screen readers; the chart's own name, and the table below it, say more in less.
function tidied(at) {
  const svg = place(at).querySelector("svg");
  const named = place(at).querySelector("[aria-label]");
  const name = SPECS_NAMES.get(at) || (named ? named.getAttribute("aria-label") : "chart");
  for (const part of place(at).querySelectorAll("[role], [aria-label], [aria-roledescription]")) {
    for (const attribute of ["role", "aria-label", "aria-roledescription", "aria-hidden"]) part.removeAttribute(attribute);
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", name);
}
const SPECS_NAMES = new Map();

// What a mark says where the pointer is.
function tip(handler, event, item, value) {
  const box = place("tip");
  if (value === null || value === undefined || value === "") {
    box.hidden = true;
    return;
  }
  const pairs = typeof value === "object" ? Object.entries(value) : [["", value]];
  box.replaceChildren(...pairs.filter(([, told]) => told !== "" && told !== "undefined").map(([name, told]) =>
    element("div", null, name ? element("b", null, name + " ") : null, visible(String(told)))));
  box.hidden = false;
  const left = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8);
  const top = event.clientY + 14 + box.offsetHeight > window.innerHeight
    ? event.clientY - box.offsetHeight - 10 : event.clientY + 14;
  box.style.left = `${Math.max(left, 4)}px`;
  box.style.top = `${Math.max(top, 4)}px`;
}

// The numbers of a chart as a table that opens: for whoever cannot see it, or wants to copy them.
function numbersBelow(id, heads, rows) {
  const open = place(id).open;
  const cell = (value) => element("td", { class: typeof value === "number" ? "right" : "left" },
    value === null || value === undefined ? "–" : String(value));
  const table = element("table", null,
    element("thead", null, element("tr", null, ...heads.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", null, ...rows.map((row) => element("tr", null, ...row.map(cell)))));
  fill(id, element("summary", null, "numbers"), element("div", { class: "wide", tabIndex: 0, role: "region",
    "aria-label": "numbers of the chart above" }, table));
  place(id).open = open;
}

function absent(at, why) {
  const before = drawn.get(at);
  if (before && before.view) before.view.finalize();
  drawn.delete(at);
  fill(at, element("p", { class: "quiet" }, why));
}
