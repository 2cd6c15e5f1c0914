// Sliders: every sweep along its keys, through settings that were replayed one by one. Nothing is interpolated.

function settingOf(at) {
  const sweep = current().sweeps[at];
  const first = sweep.policy.findIndex((number) => number !== null && policy(number).leads);
  const known = sweep.policy.findIndex((number) => number !== null);
  return state.sweeps[at] ?? Math.max(first, first < 0 ? known : first, 0);
}

// The value of a metric at a setting: a policy's, or of a gate the exact mean at that threshold.
function valueAt(sweep, setting, form) {
  const number = sweep.policy[setting];
  if (number !== null) {
    return { value: form.estimate[number], low: form.low[number], high: form.high[number] };
  }
  const means = sweep.means[form.metric];
  return { value: means ? means[setting] : null, low: null, high: null };
}

// Where the sliders were moved to, as points of the cost-quality plane.
function sliderPoints(quality, cost) {
  return Object.keys(state.sweeps).map(Number).map((at) => {
    const sweep = current().sweeps[at];
    const setting = settingOf(at);
    const [good, price] = [valueAt(sweep, setting, quality), valueAt(sweep, setting, cost)];
    if (good.value === null || price.value === null) return null;
    return {
      number: sweep.policy[setting] ?? -1, kind: "slider", name: nameOf(sweep, setting), label: "", dx: 0, dy: 0,
      value: good.value * quality.scale, cost: price.value * cost.scale, low: null, high: null, cost_low: null,
      cost_high: null, told: withLimits(quality, good.value, good.low, good.high),
      price: withLimits(cost, price.value, price.low, price.high), state: "slider", size: 170, opacity: 1, bar: 0, fill: 1,
    };
  }).filter(Boolean);
}

function nameOf(sweep, setting) {
  if (sweep.policy[setting] !== null) return policy(sweep.policy[setting]).called;
  const parts = sweep.keys.map((key, k) => `${key.key.split(".").pop()}=${key.values[sweep.at[setting][k]]}`);
  return `${sweep.name}[${parts.join(", ")}]`;
}

// The setting nearest to the wanted places of all keys that was replayed, the moved key's place first of all.
function nearest(sweep, wanted, moved) {
  let [best, least] = [0, Infinity];
  sweep.at.forEach((places, setting) => {
    const far = places.reduce((sum, value, k) => sum + Math.abs(value - wanted[k]) * (k === moved ? 1e6 : 1), 0);
    if (far < least) [best, least] = [setting, far];
  });
  return best;
}

function drawSweeps() {
  const { sweeps } = current();
  showPart("sweeps-section", sweeps.length > 0);
  fill("sweeps", ...sweeps.map((sweep, at) => {
    const sliders = sweep.keys.map((key, k) => {
      const id = `slider-${at}-${k}`;
      const move = (event) => {
        const wanted = [...sweep.at[settingOf(at)]];
        wanted[k] = Number(event.target.value);
        state.slid = [at, k];
        change({ sweeps: { ...state.sweeps, [at]: nearest(sweep, wanted, k) } });
      };
      const slider = element("input", {
        id, type: "range", min: "0", max: String(key.values.length - 1), step: "1", on: { input: move },
      });
      slider.value = String(sweep.at[settingOf(at)][k]);
      return element("label", { class: "slider", for: id }, element("span", null, key.key + " "), slider,
        element("output", { for: id, id: `${id}-value` }));
    });
    return element("article", { class: "sweep", "data-sweep": sweep.name },
      element("h3", null, sweep.name), ...sliders,
      element("p", { id: `sweep-${at}-said`, role: "status" }), element("div", { id: `sweep-${at}`, class: "chart" }),
      element("details", { id: `sweep-${at}-numbers`, class: "numbers" }));
  }));
  sweeps.forEach((_, at) => drawSweep(at));
}

function drawSweep(at) {
  const found = current();
  const sweep = found.sweeps[at];
  const setting = settingOf(at);
  sweep.keys.forEach((key, k) => {
    const slider = place(`slider-${at}-${k}`);
    slider.value = String(sweep.at[setting][k]);
    slider.setAttribute("aria-valuetext", key.values[sweep.at[setting][k]]);
    place(`slider-${at}-${k}-value`).textContent = key.values[sweep.at[setting][k]];
  });
  const quality = metric(found.metric);
  const shownMetrics = [quality, ...costs()].filter(Boolean);
  const told = shownMetrics.map((form) => {
    const { value, low, high } = valueAt(sweep, setting, form);
    return value === null || value === undefined ? null
      : element("span", { class: "told", "data-metric": form.metric },
        element("b", null, form.label + " "), withLimits(form, value, low, high));
  });
  const number = sweep.policy[setting];
  const exact = number === null ? " An exact mean; this threshold has no interval of its own." : "";
  fill(`sweep-${at}-said`, ...told.filter(Boolean), exact);
  place(`sweep-${at}-said`).dataset.policy = number === null ? "" : policy(number).name;
  if (!quality) return;
  const k = state.slid && state.slid[0] === at ? state.slid[1] : 0;
  const key = sweep.keys[k];
  const along = sweep.at.map((_, other) => other).filter((other) =>
    sweep.at[other].every((value, key) => key === k || value === sweep.at[setting][key]));
  const scaled = (value) => (value === null || value === undefined ? null : value * quality.scale);
  const row = (other) => {
    const { value, low, high } = valueAt(sweep, other, quality);
    return {
      place: sweep.at[other][k], value: scaled(value),
      low: scaled(low), high: scaled(high), tip: { [key.key]: key.values[sweep.at[other][k]], [quality.label]: withLimits(quality, value, low, high) },
    };
  };
  const rows = along.map(row).sort((one, other) => one.place - other.place);
  const description = `${quality.label} of ${sweep.name} along ${key.key}, at ${nameOf(sweep, setting)}`;
  const places = placesOf(key.values, place(`sweep-${at}`).clientWidth);
  draw(`sweep-${at}`, "sweep", { ...places, key: key.key, quality: quality.label, description },
    { line: ordered(key.values) ? rows : [], settings: rows, here: [row(setting)] });
  numbersBelow(`sweep-${at}-numbers`, [key.key, quality.label], rows.map((one) => [one.tip[key.key], one.tip[quality.label]]));
}

// Only settings that are numbers have something between them that a line may hint at.
const ordered = (values) => values.every((value) => value.trim() && Number.isFinite(Number(value)));

// The axis of a sweep: its settings side by side, with the values of as many as there is room for.
function placesOf(values, width) {
  const lines = values.map((value) => [cutTo(value, 120)]);
  const longest = lines.reduce((most, [text]) => Math.max(most, wide(text)), 0) + 14;
  const apart = Math.max(1, Math.ceil((values.length * longest) / Math.max(width - 80, 1)));
  const ticks = values.map((_, at) => at).filter((at) => at % apart === 0);
  const mark = Math.max(12, Math.min(60, (2 * width) / values.length));
  return { lines, ticks, mark, places: [-0.5, values.length - 0.5] };
}

function moveSweeps() {
  if (!Object.keys(state.sweeps).length) return drawSweeps();
  current().sweeps.forEach((_, at) => { if (!state.slid || state.slid[0] === at) drawSweep(at); });
}
