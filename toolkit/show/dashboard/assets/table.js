// The ranked table: it sorts, filters, hides columns, and picks policies.

const ONLY = {
  all: ["all policies", () => true],
  tied: ["the leader and those not told apart from it", (one) => one.leads || one.ties],
  front: ["on the Pareto front", (one) => one.front],
  real: ["without those that see gold", (one) => !one.diagnostic],
};

// The columns that are shown: at first those that a reader comes for, which fit a phone.
const shownColumns = () => state.columns
  || new Set(current().table.columns.filter((column) => column.first).map((column) => column.key));

// A cell whose interval stays in one line, below its estimate where there is little room.
function textOfCell(text) {
  const at = text.indexOf(" [");
  return at < 0 ? [text]
    : [element("span", { class: "whole" }, text.slice(0, at)), " ", element("span", { class: "whole" }, text.slice(at + 1))];
}

// A name that may break before its bracket.
const breakable = (name) => name.split(/(?=\[)/).flatMap((part) => [element("wbr"), part]);

// The number of the sweep that each policy is a setting of.
const sweepNumbers = new WeakMap();
function sweepOf(number, { sweeps } = current()) {
  if (!sweepNumbers.has(sweeps)) {
    sweepNumbers.set(sweeps, new Map(sweeps.flatMap((sweep, at) => sweep.policy.map((one) => [one, at]))));
  }
  return sweepNumbers.get(sweeps).get(number);
}

// The rows of the table: of a sweep the first setting alone, with the others below it where it is open.
function tableRows(numbers) {
  const groups = new Map();
  for (const number of numbers) {
    const at = state.settings === "apart" ? undefined : sweepOf(number);
    const key = at === undefined ? `alone ${number}` : at;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(number);
  }
  return [...groups].flatMap(([at, members]) => {
    const known = incomplete() ? new Set(current().sweeps[at]?.policy).size : members.length;
    const first = { number: members[0], sweep: at, others: Math.max(known, 1) - 1 };
    return [first, ...(state.open.includes(at) ? members.slice(1).map((number) => ({ number, others: 0, inner: true })) : [])];
  });
}

const CURVE = [64, 18];  // pixels of a sweep's small curve

// The small curve of a sweep: what ranks, along its key where it has one of numbers, else over the cost.
function curveOf(at, form, cost) {
  const sweep = current().sweeps[at];
  const along = sweep.keys.length === 1 && ordered(sweep.keys[0].values);
  const points = sweep.policy.flatMap((number, setting) => {
    const y = number === null || !form ? null : form.estimate[number];
    const x = along ? sweep.at[setting][0] : cost && number !== null ? cost.estimate[number] : null;
    return x === null || y === null ? [] : [[x, y]];
  }).sort((one, other) => one[0] - other[0]);
  if (points.length < 2) return null;
  const scale = (part, size) => {
    const [low, high] = [0, 1].map((end) => points.reduce((best, one) => (end ? Math.max : Math.min)(best, one[part]), points[0][part]));
    return (value) => 2 + (size - 4) * (high > low ? (value - low) / (high - low) : 0.5);
  };
  const [x, y] = [scale(0, CURVE[0]), scale(1, CURVE[1])];
  const steps = points.map((one) => `${x(one[0]).toFixed(1)} ${(CURVE[1] - y(one[1])).toFixed(1)}`);
  const path = along ? `M${steps.join("L")}` : steps.map((step) => `M${step}h0`).join("");
  const svg = drawing("svg", { class: along ? "curve" : "curve dots", width: CURVE[0], height: CURVE[1], "aria-hidden": "true" });
  svg.append(drawing("path", { d: path }));
  return svg;
}

// What opens the other settings of a row's sweep.
function othersOf(row, form, cost) {
  if (!row.others) return [];
  const open = state.open.includes(row.sweep);
  const turn = () => change({ open: open ? state.open.filter((one) => one !== row.sweep) : [...state.open, row.sweep] });
  const [count, word] = counted(row.others, "setting").split(" ");
  const made = button(`open-sweep-${row.sweep}`, `${open ? "−" : "+"} ${count}`, turn);
  made.append(element("span", { class: "word" }, ` ${word}`));
  made.setAttribute("aria-expanded", String(open));
  made.setAttribute("aria-label", `${counted(row.others, "more setting")} of ${current().sweeps[row.sweep].name}`);
  return [element("span", { class: "settings" }, made, " ", curveOf(row.sweep, form, cost))];
}

function drawControls() {
  const { columns } = current().table;
  const boxes = columns.map((column, at) => {
    const flip = (event) => {
      const columns = new Set(shownColumns());
      if (event.target.checked) columns.add(column.key);
      else columns.delete(column.key);
      change({ columns });
    };
    const box = element("input", {
      type: "checkbox", id: `column-${column.key}`, checked: shownColumns().has(column.key), on: { change: flip },
    });
    return column.key === "policy" || !at ? null : element("label", { class: "box" }, box, " " + column.name);
  });
  const find = element("input", {
    id: "find", type: "search", value: state.find, on: { input: (event) => change({ find: event.target.value }) },
  });
  const keys = Object.keys(ONLY);
  fill("table-controls",
    element("label", { for: "find" }, "policies with ", find),
    choice("only", "policies shown", keys.map((key) => ONLY[key][0]), keys.indexOf(state.only),
      (at) => change({ only: keys[at] })),
    current().sweeps.length ? element("label", { class: "box" }, element("input", {
      type: "checkbox", id: "settings", checked: state.settings === "apart",
      on: { change: (event) => change({ settings: event.target.checked ? "apart" : "" }) },
    }), " a row for each setting of a sweep") : null,
    element("details", { class: "columns" }, element("summary", null, "columns"), ...boxes.filter(Boolean)),
    element("button", { type: "button", on: { click: () => change({ picked: [] }) } }, "pick none"));
}

// The numbers of the policies that pass the filters, in the order of the table.
function passing() {
  const { table, policies } = current();
  const wanted = state.find.toLowerCase();
  const numbers = policies.map((_, number) => number).filter((number) =>
    policies[number] && ONLY[state.only][1](policies[number])
    && (!wanted || (policies[number].name + " " + policies[number].called).toLowerCase().includes(wanted)));
  const at = table.columns.findIndex((column) => column.key === state.sort);
  if (at < 0) return numbers;
  const value = (number) => table.rows[number][at][1];
  const sign = state.down ? -1 : 1;
  return numbers.sort((one, other) => {
    const [first, second] = [value(one), value(other)];
    if (first === null || second === null) return (first === null) - (second === null) || one - other;
    const apart = typeof first === "number" && typeof second === "number" ? first - second
      : String(first).localeCompare(String(second));
    return sign * apart || one - other;
  });
}

function headCell(column) {
  const sorted = state.sort === column.key;
  const turn = () => change(sorted ? { down: !state.down } : { sort: column.key, down: column.down });
  const mark = sorted ? (state.down ? " ▼" : " ▲") : "";
  const button = element("button", { type: "button", id: `sort-${column.key}`, on: { click: turn } }, column.name + mark);
  const order = sorted ? (state.down ? "descending" : "ascending") : "none";
  return element("th", { scope: "col", class: `${column.align} of-${column.key}`, "aria-sort": order }, button);
}

function pick(number, on) {
  change({ picked: on ? [...state.picked, number] : state.picked.filter((one) => one !== number) });
}

function drawTable() {
  const { table, policies } = current();
  const numbers = passing();
  const kept = table.columns.map((_, at) => at).filter((at) => shownColumns().has(table.columns[at].key));
  const head = element("tr", null, element("th", { scope: "col" }, element("span", { class: "unseen" }, "picked")),
    ...kept.map((at) => headCell(table.columns[at])));
  const [form, cost] = [metric(current().metric), chosenCost()];
  const lines = tableRows(numbers);
  const rows = lines.map((row) => {
    const { number } = row;
    const one = policies[number];
    const on = state.picked.includes(number);
    const box = element("input", {
      type: "checkbox", id: `pick-${number}`, checked: on, "aria-label": `pick ${one.called}`,
      on: { change: (event) => pick(number, event.target.checked) },
    });
    const cells = kept.map((at) => {
      const column = table.columns[at];
      const name = column.key === "policy";
      const look = { class: `${column.align} of-${column.key}`, scope: name ? "row" : null };
      if (name) return element("th", { ...look, title: one.name }, ...breakable(table.rows[number][at][0]), ...othersOf(row, form, cost));
      return element("td", look, ...textOfCell(table.rows[number][at][0]));
    });
    const look = [on ? "picked" : "", one.leads ? "leads" : "", one.diagnostic ? "faint" : "", row.inner ? "inner" : ""].join(" ").trim();
    return element("tr", { class: look, "data-policy": one.name }, element("td", null, box), ...cells);
  });
  fill("table-head", head);
  fill("table-body", ...rows);
  const inRows = lines.length < numbers.length ? ` in ${counted(lines.length, "row")}: a sweep has that of its setting that comes first` : "";
  fill("table-count", policies.length ? `${counted(incomplete() ? policies.length : numbers.length, "policy", "policies")} of ${policies.length} shown${inRows}`
    : "The result has no policy that could be compared.");
}
