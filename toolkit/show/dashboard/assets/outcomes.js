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

// The differences of all policies to one, each with the t interval of its paired difference.
function computedDifferences(base) {
  const { outcomes, policies } = current();
  const { estimate } = metric(current().metric);
  const count = policies.length;
  const shares = sharesOf(outcomes, count);
  const squares = new Float64Array(count);
  for (let unit = 0; unit < outcomes.count; unit += 1) {
    const own = shares[unit * count + base];
    for (let one = 0; one < count; one += 1) squares[one] += (shares[unit * count + one] - own) ** 2;
  }
  const found = { difference: [], low: [], high: [], p: [], differs: [], ...changesTo(base), computed: true, limited: true };
  for (let one = 0; one < count; one += 1) {
    const difference = estimate[one] === null ? null : estimate[one] - estimate[base];
    const half = outcomes.quantile * Math.sqrt(squares[one] * outcomes.count / (outcomes.count - 1));
    const there = difference !== null && one !== base && half > 0;
    found.difference.push(difference);
    found.low.push(there ? difference - half : null);
    found.high.push(there ? difference + half : null);
    found.p.push(null);
    found.differs.push(there ? Math.abs(difference) > half : null);
  }
  return found;
}

// On how many examples each policy alone does better than one, and worse.
function changesTo(base) {
  const { outcomes, policies } = current();
  const count = policies.length;
  if (!outcomes.changes) return { fixes: policies.map(() => null), flips: policies.map(() => null) };
  const codes = codesOf(outcomes);
  const [fixes, flips] = [new Array(count).fill(0), new Array(count).fill(0)];
  for (let from = 0; from < codes.length; from += count) {
    const own = codes[from + base];
    if (own < 0) continue;
    for (let one = 0; one < count; one += 1) {
      const code = codes[from + one];
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
  if (outcomes && !limited) return computedDifferences(base);
  return { ...Object.fromEntries(["difference", "low", "high", "p", "fixes", "flips", "differs"].map((part) => [part, pairs[part][at]])), computed: false, limited };
}
