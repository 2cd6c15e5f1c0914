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
    element("details", { class: "columns" }, element("summary", null, "columns"), ...boxes.filter(Boolean)),
    element("button", { type: "button", on: { click: () => change({ picked: [] }) } }, "pick none"));
}

// The numbers of the policies that pass the filters, in the order of the table.
function passing() {
  const { table, policies } = current();
  const wanted = state.find.toLowerCase();
  const numbers = policies.map((_, number) => number).filter((number) =>
    ONLY[state.only][1](policies[number])
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
  const rows = numbers.map((number) => {
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
      if (name) return element("th", { ...look, title: one.name }, ...breakable(table.rows[number][at][0]));
      return element("td", look, ...textOfCell(table.rows[number][at][0]));
    });
    const look = [on ? "picked" : "", one.leads ? "leads" : "", one.diagnostic ? "faint" : ""].join(" ").trim();
    return element("tr", { class: look, "data-policy": one.name }, element("td", null, box), ...cells);
  });
  fill("table-head", head);
  fill("table-body", ...rows);
  fill("table-count", policies.length ? `${counted(numbers.length, "policy", "policies")} of ${policies.length} shown`
    : "The result has no policy that could be compared.");
}
