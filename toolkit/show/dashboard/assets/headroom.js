// Headroom, its parts and the share of it that each policy captures; and curves.

const PARTS = ["right", "selection", "stopping", "generation"];
const PERCENT = { scale: 100, decimals: 1, significant: 0 };

function drawHeadroom() {
  const found = current();
  const room = found.headroom;
  showPart("headroom-section", room !== null);
  if (!room) return;
  const measured = (measure, number) => (room.measures[measure] || [])[number] || [null, null, null];
  const all = passing().filter((number) => room.accuracy[number] !== null);
  const numbers = rowsOf(all);
  const said = (measure, number) => withLimits(PERCENT, ...measured(measure, number));
  fill("headroom-said", `What each policy lacks to ${policy(room.oracle).called}, which sees gold. `
    + (room.parts ? "Generation: no trace is right that it might have answered with. Stopping: one is, but it paid for "
      + "none. Selection: it paid for one and answered something else." : "The parts of the gap are not in this result: "
      + "save it with them (--headroom).") + fewOf(numbers, all));
  const heads = ["policy", "accuracy %", "of headroom %", "regret %", "generation %", "stopping %", "selection %"];
  const table = numbers.map((number) => [policy(number).called, shown(PERCENT, room.accuracy[number]),
    ...["share_of_headroom", "regret", "generation", "stopping", "selection"].map((one) => said(one, number))]);
  numbersBelow("headroom-numbers", heads, table);
  if (!room.parts && room.baseline === null) place("headroom-numbers").open = true;
  drawCaptured(room, numbers, measured);
  if (!numbers.length || !room.parts) {
    absent("headroom", room.parts ? "No policy passes the filters." : "");
    return;
  }
  const scale = (place("headroom").clientWidth - roomOf(place("headroom").clientWidth) - 8) / 100;
  const bars = numbers.flatMap((number, row) => {
    let from = 0;
    return PARTS.map((part) => {
      const limits = part === "right" ? [room.accuracy[number], null, null] : measured(part, number);
      const share = 100 * limits[0];
      from += share;
      return {
        row, name: policy(number).called, part, share, from: from - share, to: from, middle: from - share / 2,
        text: withLimits(PERCENT, ...limits), label: partLabel(part, share, scale),
      };
    });
  });
  const description = `The gap of ${counted(numbers.length, "policy", "policies")} to always right, in its parts`;
  draw("headroom", "headroom", { description, called: numbers.map((number) => policy(number).called) }, { bars });
}

// What stands in a bar: the part's name and its share, or the share alone, or nothing: whatever has room whole.
function partLabel(part, share, scale) {
  const value = rounded(share, share < 10 ? 1 : 0).toFixed(share < 10 ? 1 : 0);
  const fits = (text) => wide(text) + 6 <= share * scale;
  return [`${part} ${value}`, value].find(fits) || "";
}

function drawCaptured(room, numbers, measured) {
  const known = numbers.filter((number) => measured("share_of_headroom", number)[0] !== null);
  const oracle = policy(room.oracle).called;
  if (room.baseline === null || !known.length) {
    fill("captured-said", room.baseline === null
      ? `No share of the headroom is known: the result has no baseline to measure it from (--baseline).` : "");
    absent("captured", room.baseline === null || numbers.length ? "" : "No policy passes the filters.");
    withoutNumbers("captured");
    return;
  }
  const base = policy(room.baseline).called;
  fill("captured-said", `How much of the way from ${base} (0) to ${oracle} (100) each policy goes.`);
  const rows = known.map((number, row) => {
    const [share, low, high] = measured("share_of_headroom", number);
    const scaled = (value) => (value === null ? null : 100 * value);
    return {
      row, name: policy(number).called, share: scaled(share), low: scaled(low), high: scaled(high),
      said: withLimits(PERCENT, share, low, high),
    };
  });
  const description = `Headroom captured by ${counted(rows.length, "policy", "policies")}, from ${base} to ${oracle}`;
  draw("captured", "captured", { description, called: rows.map((one) => one.name) },
    { rows, ends: [{ end: 0 }, { end: 100 }] });
  numbersBelow("captured-numbers", ["policy", "of headroom %"], rows.map((one) => [one.name, one.said]));
}

// The pools that have curves, and the chosen one.
function curvePools() {
  const pools = [...new Set((current().curves ?? []).map((row) => row.pool))];
  return { pools, pool: pools.includes(state.pool) ? state.pool : pools[0] };
}

function drawCurves() {
  const { curves } = current();
  showPart("curves-section", Boolean(curves && curves.length));
  if (!curves || !curves.length) return;
  const { pools, pool } = curvePools();
  fill("curves-controls", pools.length > 1 ? choice("pool", "pool", pools, pools.indexOf(pool), (to) => change({ pool: pools[to] })) : null);
  const rows = curves.filter((row) => row.pool === pool).map((row) => ({
    series: row.series, k: row.k, estimate: 100 * row.estimate, low: row.low === null ? null : 100 * row.low,
    high: row.high === null ? null : 100 * row.high, said: withLimits(PERCENT, row.estimate, row.low, row.high),
  }));
  const ticks = [...new Set(rows.map((row) => row.k))].sort((one, other) => one - other);
  const description = `Curves over the number of traces of the pool ${pool}`;
  draw("curves", "curves", { ticks, series: [...new Set(rows.map((row) => row.series))], description }, { lines: rows });
  numbersBelow("curves-numbers", ["series", "k", "%"], rows.map((row) => [row.series, row.k, row.said]));
}
