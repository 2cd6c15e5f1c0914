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
  const kind = kindOf(number);
  const named = on || (!some && (kind === "leader" || kind === "baseline"));
  return {
    number, kind, name: one.called, label: named ? one.called : "",
    value: scaled(quality, quality.estimate[number]), cost: scaled(cost, cost.estimate[number]),
    low: scaled(quality, quality.low[number]), high: scaled(quality, quality.high[number]),
    cost_low: scaled(cost, cost.low[number]), cost_high: scaled(cost, cost.high[number]),
    told: withLimits(quality, quality.estimate[number], quality.low[number], quality.high[number]),
    price: withLimits(cost, cost.estimate[number], cost.low[number], cost.high[number]),
    state: [one.leads ? "leads" : one.ties ? "not told apart from the leader" : "", on ? "picked" : ""].filter(Boolean).join(", "),
    size: on ? 170 : 80, opacity: some && !on ? 0.45 : 1,
    bar: on || (!some && current().policies.length <= 60) ? 0.55 : 0.12,
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

function drawPlane() {
  const found = current();
  const [quality, cost] = [metric(found.metric), chosenCost()];
  if (!quality || !cost) {
    absent("plane", `There is no picture: ${found.noFront || "no policy has a value of both"}.`);
    fill("plane-numbers");
    return;
  }
  const points = found.policies.map((_, number) => pointOf(number, quality, cost))
    .filter((one) => one.value !== null && one.cost !== null);
  const front = frontOf(points);
  for (const one of points) one.fill = front.includes(one) ? 1 : 0;
  const moved = sliderPoints(quality, cost);
  const ends = [...points, ...moved].map((one) => one.cost);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const named = [...points, ...moved].filter((one) => one.label).sort((one, other) => one.cost - other.cost);
  for (const one of named) one.turned = one.cost > (low + high) / 2;
  named.forEach((one, at) => {  // names of neighbours stand above one another
    const before = named[at - 1];
    const near = before && before.turned === one.turned && one.cost - before.cost < 0.3 * (high - low);
    one.level = near ? (before.level + 1) % 5 : 0;
    one.lift = -10 - 15 * one.level;
  });
  const description = `${quality.label} against ${cost.axis}: ${counted(points.length, "policy", "policies")}, `
    + `${front.length} on the front: ${front.slice(0, 12).map((one) => one.name).join(", ")}`;
  const own = { cost: cost.axis, quality: quality.label, description };
  for (const one of [...points, ...moved]) {
    one.tip = { policy: one.name, [quality.label]: one.told, [cost.axis]: one.price, state: one.state };
  }
  const plainFirst = [...points].sort((one, other) => (one.kind !== "policy") - (other.kind !== "policy") || one.size - other.size);
  draw("plane", "frontier", own, { points: [...plainFirst, ...moved], front }, (datum) => {
    if (datum.number >= 0) pick(datum.number, !state.picked.includes(datum.number));
  });
  numbersBelow("plane-numbers", ["policy", quality.label, cost.axis, "on this front"],
    points.map((one) => [one.name, one.told, one.price, front.includes(one) ? "yes" : ""]));
}
