// Accuracy against cost: every policy, the front, what is picked, and where the sliders stand.

function costs() {
  const heads = new Set(current().table.columns.map((column) => column.key));  // what the table calls a cost
  return current().metrics.filter((one) => one.cost && heads.has(one.metric) && one.estimate.some((value) => value !== null));
}

function chosenCost() {
  return costs().find((one) => one.metric === (state.cost || current().cost)) || costs()[0];
}

function drawCosts() {
  const known = costs();
  const at = known.indexOf(chosenCost());
  fill("plane-controls", choice("cost", "cost", known.map((one) => one.label), at, (to) => change({ cost: known[to].metric })));
}

function kindOf(number) {
  const one = policy(number);
  if (one.leads) return "leader";
  if (number === current().baseline) return "baseline";
  return one.diagnostic ? "sees gold" : "policy";
}

function pointOf(number, quality, cost) {
  const one = policy(number);
  const on = state.picked.includes(number);
  const some = state.picked.length > 0;
  const scaled = (form, value) => (value === null || value === undefined ? null : value * form.scale);
  return {
    number, kind: kindOf(number), name: one.called, label: "", dx: 0, dy: 0,
    value: scaled(quality, quality.estimate[number]), cost: scaled(cost, cost.estimate[number]),
    low: scaled(quality, quality.low[number]), high: scaled(quality, quality.high[number]),
    cost_low: scaled(cost, cost.low[number]), cost_high: scaled(cost, cost.high[number]),
    told: withLimits(quality, quality.estimate[number], quality.low[number], quality.high[number]),
    price: withLimits(cost, cost.estimate[number], cost.low[number], cost.high[number]),
    state: [one.leads ? "leads" : one.ties ? "not told apart from the leader" : "", on ? "picked" : ""].filter(Boolean).join(", "),
    size: on ? 170 : 80, opacity: some && !on ? 0.45 : 1,
    bar: on || (!some && current().policies.length <= 20) ? 0.55 : 0.12,
  };
}

// Names of points that no other beats, for this cost: at most its cost, at least its quality.
function frontOf(points) {
  const real = points.filter((one) => one.kind !== "sees gold").sort((one, other) =>
    one.cost - other.cost || better(other) - better(one));
  const front = [];
  let best = -Infinity;
  for (const one of real) {
    const last = front[front.length - 1];
    if (better(one) > best || (last && better(one) === best && one.cost === last.cost)) {
      front.push(one);
      best = better(one);
    }
  }
  return front;
}
const better = (one) => (metric(current().metric).cost ? -one.value : one.value);

// The ends of an axis for so many values, with room at both ends; of a log axis these are the logarithms' ends.
function endsOf(values, log) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (log) return [low * (low / high) ** 0.04, high * (high / low) ** 0.04];
  const room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - room, high + room];
}

// What sees gold stands at the edge, with its value, where it lies beyond all that could be done without.
function toTheEdge(points, quality) {
  const real = points.filter((one) => one.kind !== "sees gold");
  const seen = (real.length ? real : points).flatMap((one) => [one.value, one.low ?? one.value, one.high ?? one.value]);
  const ys = endsOf(seen, false);
  if (quality.share) ys.splice(0, 2, Math.max(ys[0], -2), Math.min(ys[1], 102));
  ys[1] += 0.06 * (ys[1] - ys[0]);  // for names
  const edge = 0.02 * (ys[1] - ys[0]);  // a mark at the edge is whole
  for (const one of points) {
    one.at = one.value < ys[0] || one.value > ys[1] ? Math.min(Math.max(one.value, ys[0] + edge), ys[1] - edge) : one.value;
    one.beyond = one.at === one.value ? "" : ` ${shown(quality, one.value / quality.scale)} ${one.value > one.at ? "↑" : "↓"}`;
    if (one.beyond) Object.assign(one, { low: null, high: null });
  }
  return ys;
}

// The names that are wanted, the most important first: what is picked or moved, the leader, the baseline, the front.
function wantedNames(points, front) {
  const weight = (one) => (one.kind === "slider" || state.picked.includes(one.number) ? 0
    : one.kind === "leader" ? 1 : one.kind === "baseline" ? 2 : front.has(one.number) ? 3 : one.beyond ? 4 : 9);
  return points.filter((one) => weight(one) < 9).sort((one, other) => weight(one) - weight(other));
}

// The boxes of a line in steps through marks.
function linesOf(marks) {
  return marks.slice(1).flatMap((to, at) => [
    { left: marks[at].x, right: to.x, top: marks[at].y - 1, bottom: marks[at].y + 1 },
    { left: to.x - 1, right: to.x + 1, top: Math.min(to.y, marks[at].y), bottom: Math.max(to.y, marks[at].y) },
  ]);
}

// Gives the drawn points their names, and tells below the picture what its numbers stand for.
function nameMarks(view, points, wanted, front) {
  const [x, y] = [view.scale("x"), view.scale("y")];
  const marks = new Map(points.map((one) => [one, { x: x(one.cost), y: y(one.at), r: Math.sqrt(one.size / Math.PI), name: one.name, beyond: one.beyond }]));
  const plot = { width: Math.max(...x.range()), height: Math.max(...y.range()) };
  const places = placedNames(wanted.map((one) => marks.get(one)), [...marks.values()], plot, linesOf(front.map((one) => marks.get(one))));
  const far = (one, other) => Math.hypot(marks.get(one).x - marks.get(other).x, marks.get(one).y - marks.get(other).y);
  const named = wanted.filter((_, at) => places[at][0]);
  const nearestNamed = (one) => named.reduce((best, other) => (far(one, other) < far(one, best) ? other : best), named[0] ?? one);
  const keyed = [];
  wanted.forEach((one, at) => {
    const [box, text] = places[at];
    const mark = marks.get(one);
    Object.assign(one, { label: text, dx: box ? box.left + 2 - mark.x : 0, dy: box ? (box.top + box.bottom) / 2 - mark.y : 0 });
    if (box && /^\d+$/.test(text)) keyed.push(`${text}: ${one.name}`);
    if (!box) keyed.push(`beside ${nearestNamed(one).name}: ${one.name}`);
  });
  fill("plane-key", keyed.length ? `Names that have no room: ${keyed.sort().join("; ")}.` : null);
  view.data("points", points.map((one) => ({ ...one })));
}

// All that the table knows of the policy that was picked last.
function drawFacts() {
  const number = state.picked.at(-1);
  const { columns, rows } = current().table;
  fill("policy-facts", ...(number === undefined ? [] : [element("h3", null, policy(number).called),
    element("p", null, ...columns.map((column, at) => [column, rows[number][at][0]])
      .filter(([column, text]) => column.key !== "policy" && text !== "" && text !== "–").map(([column, text]) =>
        element("span", { class: "told" }, `${column.name} `, element("b", null, text))))]));
}

function drawPlane() {
  const found = current();
  const [quality, cost] = [metric(found.metric), chosenCost()];
  if (!quality || !cost) {
    absent("plane", `There is no picture: ${found.noFront || "no policy has a value of both"}.`);
    withoutNumbers("plane");
    fill("plane-key");
    return;
  }
  const policies = found.policies.map((_, number) => pointOf(number, quality, cost))
    .filter((one) => one.value !== null && one.cost !== null);
  const front = frontOf(policies);
  for (const one of policies) one.fill = front.includes(one) ? 1 : 0;
  const plainFirst = [...policies].sort((one, other) => (one.kind !== "policy") - (other.kind !== "policy") || one.size - other.size);
  const points = [...plainFirst, ...sliderPoints(quality, cost)];
  const values = points.map((one) => one.cost);
  const log = Math.min(...values) > 0 && Math.max(...values) >= 10 * Math.min(...values);
  for (const one of points) {
    if (one.cost_low === null || (log && one.cost_low <= 0)) Object.assign(one, { cost_low: one.cost, cost_high: one.cost });
    one.tip = { policy: one.name, [quality.label]: one.told, [cost.axis]: one.price, state: one.state };
  }
  const ys = toTheEdge(points, quality);
  const xs = endsOf(points.flatMap((one) => [one.cost_low, one.cost_high]), log);
  const description = `${quality.label} against ${cost.axis}: ${counted(policies.length, "policy", "policies")}, `
    + `${front.length} on the front: ${front.slice(0, 12).map((one) => one.name).join(", ")}`;
  const wanted = wantedNames(points, new Set(front.map((one) => one.number)));
  const own = {
    cost: cost.axis, quality: quality.label, description, xs, ys, ticks: log ? decadeTicks(...xs) : [],
    after: (view) => nameMarks(view, points, wanted, front),
  };
  draw("plane", log ? "frontier_log" : "frontier", own, { points, front }, (datum) => {
    if (datum.number >= 0) pick(datum.number, !state.picked.includes(datum.number));
  });
  numbersBelow("plane-numbers", ["policy", quality.label, cost.axis, "on this front"],
    policies.map((one) => [one.name, one.told, one.price, front.includes(one) ? "yes" : ""]));
}
