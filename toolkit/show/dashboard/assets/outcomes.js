// All outcomes of a result, and what the page computes from them: differences to any policy, with t intervals.

// The codes of the outcomes as numbers, -1 for none, in the order (example, policy).
function codesOf(outcomes) {
  if (!outcomes.known) outcomes.known = Int8Array.from(outcomes.codes, (sign) => (sign === " " ? -1 : sign.charCodeAt(0) - 35));
  return outcomes.known;
}

// What each resampling unit adds to each policy's mean, in the order (unit, policy): of an example that has a value its
// distance to the mean, divided by how many examples have one. Their sum over all units is 0.
function sharesOf(outcomes, count) {
  if (outcomes.shares) return outcomes.shares;
  const codes = codesOf(outcomes);
  const size = codes.length / count;
  const [sums, known] = [new Float64Array(count), new Float64Array(count)];
  codes.forEach((code, at) => { if (code >= 0) { sums[at % count] += code; known[at % count] += 1; } });
  const shares = new Float64Array(outcomes.count * count);
  for (let example = 0; example < size; example += 1) {
    const unit = outcomes.units ? outcomes.units[example] : example;
    for (let one = 0; one < count; one += 1) {
      const code = codes[example * count + one];
      if (code >= 0) shares[unit * count + one] += (code - sums[one] / known[one]) / known[one];
    }
  }
  const step = (outcomes.high - outcomes.low) / outcomes.levels;
  outcomes.shares = shares.map((share) => share * step);
  return outcomes.shares;
}

// The differences of a side's policies to one of the other side, each with the t interval of its paired difference. A
// side: outcomes of the same examples, and the mean of each policy.
function computedDifferences(side, other, base) {
  const [count, width] = [side.estimate.length, other.estimate.length];
  const [shares, own] = [sharesOf(side.outcomes, count), sharesOf(other.outcomes, width)];
  const units = side.outcomes.count;
  const squares = new Float64Array(count);
  for (let unit = 0; unit < units; unit += 1) {
    const taken = own[unit * width + base];
    for (let one = 0; one < count; one += 1) squares[one] += (shares[unit * count + one] - taken) ** 2;
  }
  const found = { difference: [], low: [], high: [], p: [], differs: [], ...changesTo(side, other, base), computed: true, limited: true };
  for (let one = 0; one < count; one += 1) {
    const difference = side.estimate[one] === null || other.estimate[base] === null ? null : side.estimate[one] - other.estimate[base];
    const half = side.outcomes.quantile * Math.sqrt(squares[one] * units / (units - 1));
    const there = difference !== null && half > 0;
    found.difference.push(difference);
    found.low.push(there ? difference - half : null);
    found.high.push(there ? difference + half : null);
    found.p.push(null);
    found.differs.push(there ? Math.abs(difference) > half : null);
  }
  return found;
}

// On how many examples each policy of a side does better than one of the other side, and worse.
function changesTo(side, other, base) {
  const [count, width] = [side.estimate.length, other.estimate.length];
  if (!side.outcomes.changes) return { fixes: side.estimate.map(() => null), flips: side.estimate.map(() => null) };
  const [codes, others] = [codesOf(side.outcomes), codesOf(other.outcomes)];
  const [fixes, flips] = [new Array(count).fill(0), new Array(count).fill(0)];
  for (let example = 0; example * count < codes.length; example += 1) {
    const own = others[example * width + base];
    if (own < 0) continue;
    for (let one = 0; one < count; one += 1) {
      const code = codes[example * count + one];
      if (code > own) fixes[one] += 1;
      else if (code >= 0 && code < own) flips[one] += 1;
    }
  }
  return { fixes, flips };
}

// The differences to a policy: those that are saved where they have limits, else those that the page computes.
function differencesTo(base) {
  const { outcomes, pairs } = current();
  const at = pairs.baselines.indexOf(base);
  const limited = at >= 0 && pairs.low[at].some((low) => low !== null);
  if (outcomes && !limited) {
    const side = { outcomes, estimate: metric(current().metric).estimate };
    return computedDifferences(side, side, base);
  }
  return { ...Object.fromEntries(["difference", "low", "high", "p", "fixes", "flips", "differs"].map((part) => [part, pairs[part][at]])), computed: false, limited };
}
