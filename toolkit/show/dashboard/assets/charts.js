// Vega-Lite charts: the page gives them data, and a table of the same numbers stands below each.

const SPECS = ready("charts");
const drawn = new Map();
const OPTIONS = {
  ast: true, renderer: "svg", actions: false, defaultStyle: false, mode: "vega-lite", logLevel: 1,
};

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "12px system-ui, sans-serif";
const wide = (text) => ruler.measureText(text).width;

// A text that fits: what is too long loses its middle, since beginnings and ends tell names apart.
function cutTo(text, room) {
  if (text.length < 1000 && wide(text) <= room) return text;
  const signs = Array.from(text);
  const kept = (count) => `${signs.slice(0, Math.ceil(count / 2)).join("")}…${signs.slice(signs.length - Math.floor(count / 2)).join("")}`;
  let [least, most] = [1, Math.min(signs.length, 200)];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (wide(kept(middle)) <= room) least = middle;
    else most = middle - 1;
  }
  return kept(least);
}

// A name in one line where it fits, or else in up to three, broken before a bracket and after blanks and commas.
function lined(text, room) {
  if (text.length < 1000 && wide(text) <= room) return [text];
  const lines = [""];
  for (const part of text.split(/(?<=[ ,])|(?=\[)/)) {
    const last = lines[lines.length - 1];
    const full = part[0] === "[" || last.length + part.length > 200 || wide((last + part).trim()) > room;
    if (last && full && lines.length < 3) lines.push(part);
    else lines[lines.length - 1] += part;
  }
  return lines.map((line) => cutTo(line.trim(), room));
}

// Room for the names of rows at the left of a chart, and how high its rows are with the names in lines.
const roomOf = (width) => Math.round(width < 480 ? 0.38 * width : Math.min(240, 0.3 * width));
function inRows(lines, least = 22) {
  const each = Math.max(least, 8 + 14 * lines.reduce((most, one) => Math.max(most, one.length), 1));
  return { lines, height: Math.max(lines.length, 1) * each };
}

// One chart in one place: what is asked last is drawn last. Its parameters and data change without a new chart.
function draw(at, chart, own, data, heard) {
  const width = place(at).clientWidth;
  const names = roomOf(width);
  const rows = own.called ? inRows(own.called.map((name) => lined(name, names - 8)), own.each) : {};
  const room = { names, legend: Math.max(2, Math.floor(width / 160)), words: Math.round(0.45 * width) };
  const { description, height, after, wide: plot, ...given } = { ...room, ...rows, ...own };
  const size = { ...(plot && { width: plot }), ...(height && { height }) };
  const params = SPECS[chart].params.map(({ name, value }) => ({ name, value: given[name] ?? value }));
  const datasets = Object.fromEntries(Object.entries(data).map(([name, rows]) => [name, rows.map((row) => ({ ...row }))]));
  const held = drawn.get(at) || { turn: Promise.resolve() };
  const asked = {};
  held.asked = asked;
  held.turn = held.turn.catch(() => null).then(async () => {
    if (held.asked !== asked || !place(at)) return;
    if (held.view && held.chart === chart && held.inner.isConnected) {
      held.view.width(plot || width);
      if (height) held.view.height(height);
      for (const { name, value } of params) held.view.signal(name, value);
      for (const [name, rows] of Object.entries(datasets)) held.view.data(name, rows);
      await held.view.resize().runAsync();
    } else {
      if (held.view) held.view.finalize();
      held.chart = chart;
      held.inner = element("div", { class: "drawing" });
      place(at).replaceChildren(held.inner);
      const spec = { ...SPECS[chart], ...size, params, datasets };
      held.view = (await vegaEmbed(held.inner, spec, { ...OPTIONS, tooltip: tip })).view;
      if (heard) held.view.addEventListener("click", (event, item) => item && item.datum && heard(item.datum));
      held.points = SPECS[chart].params.some((one) => one.name === "under");
      if (held.points) heardPointer(held);
      heardKeys(held);
    }
    if (after) {
      after(held.view);
      await held.view.runAsync();
    }
    Object.assign(held, { heard, description });
    if (held.inner.isConnected) tidied(held, description);
  });
  drawn.set(at, held);
  return held.turn;
}

const NUMBERS_OF = {
  plane: "cost and quality", forest: "the differences", changes: "fixes against flips", headroom: "the headroom",
  captured: "the headroom captured", curves: "the curves", results: "the results side by side", against: "the differences of two results",
  "against-changes": "fixes against flips of two results",
};

// The numbers of a chart as a table that opens: for whoever cannot see it, or wants to copy them.
function numbersBelow(id, heads, rows) {
  const open = place(id).open;
  const chart = id.replace(/-numbers$/, "");
  const of = NUMBERS_OF[chart] || `${place(id).parentElement.querySelector("h3, h4").textContent} (${chart})`;
  const wide = { class: "wide", tabIndex: 0, role: "region", "aria-label": `numbers of ${of}` };
  copiesBeside(id, chart, of, heads, rows);
  fill(id, element("summary", null, "numbers", element("span", { class: "unseen" }, ` of ${of}`)),
    element("div", wide, element("table", null, ...tableOf(heads, rows))));
  place(id).open = open;
}

// Takes the numbers of charts away, and what copies them.
function withoutNumbers(...charts) {
  for (const chart of charts) {
    fill(`${chart}-numbers`);
    if (place(`${chart}-copies`)) place(`${chart}-copies`).hidden = true;
  }
}

function absent(at, why) {
  const held = drawn.get(at);
  if (held) held.asked = null;
  if (held && held.view) held.view.finalize();
  drawn.delete(at);
  fill(at, element("p", { class: "quiet" }, why));
}
