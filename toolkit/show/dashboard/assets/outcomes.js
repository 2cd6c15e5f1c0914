// All outcomes of a result, and what the page computes from them: differences to any policy, with limits.

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

// Differing examples below which the limits of outcomes of 0 and 1 are Tango's, and of others there are none; below
// which a claim also needs McNemar's exact p-value; units below which nothing has limits: as in toolkit/stats.
const [FEW_PAIRS, EXACT_PAIRS, FEWEST_UNITS] = [20, 10, 3];
const SAME = 2e-6;  // estimates on the page have six digits

// Tango's score limits of a difference of paired rates, (first − second)/n, as toolkit/stats/limits/discordant.py has them.
function tangoLimits(first, second, n, z) {
  const lowest = (one, two) => {
    if (!one && !two) return -z * z / (n + z * z);
    let [low, high] = [-1, (one - two) / n];
    for (let halving = 0; halving < 60; halving += 1) {
      const middle = (low + high) / 2;
      const b = (2 * n - one + two) * middle - one - two;
      const alone = (Math.sqrt(Math.max(b * b + 8 * n * two * middle * (1 - middle), 0)) - b) / (4 * n);
      const variance = Math.max(n * (2 * alone + middle * (1 - middle)), 0);
      if (one - two - n * middle > z * Math.sqrt(variance)) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  };
  return [lowest(first, second), -lowest(second, first)];
}

// McNemar's exact two-sided p-value of so few pairs that powers of two hold its sums.
function exactP(first, second) {
  let [sum, ways] = [0, 1];
  for (let heads = 0; heads <= Math.min(first, second); heads += 1) {
    sum += ways;
    ways = ways * (first + second - heads) / (heads + 1);
  }
  return Math.min(1, 2 * sum / 2 ** (first + second));
}

// The differences of a side's policies to one of the other side, each with limits of its paired difference alone. A
// side: outcomes of the same examples, and the mean of each policy.
function computedDifferences(side, other, base) {
  const [count, width] = [side.estimate.length, other.estimate.length];
  const [shares, own] = [sharesOf(side.outcomes, count), sharesOf(other.outcomes, width)];
  const { count: units, changes, normal, quantile, share } = side.outcomes;
  const squares = new Float64Array(count);
  for (let unit = 0; unit < units; unit += 1) {
    const taken = own[unit * width + base];
    for (let one = 0; one < count; one += 1) squares[one] += (shares[unit * count + one] - taken) ** 2;
  }
  const pairs = discordantPairs(side, other, base);
  const counts = (list) => (changes ? list : list.map(() => null));
  const found = { difference: [], low: [], high: [], p: [], differs: [], few: [], fixes: counts(pairs.more), flips: counts(pairs.less),
    graded: pairs.graded.some((one) => one > 0), computed: true, limited: true };
  const end = (limit) => (share ? Math.min(1, Math.max(-1, limit)) : limit);
  for (let one = 0; one < count; one += 1) {
    const [more, less, n] = [pairs.more[one], pairs.less[one], pairs.n[one]];
    const difference = side.estimate[one] === null || other.estimate[base] === null ? null : side.estimate[one] - other.estimate[base];
    const scarce = more + less < FEW_PAIRS || pairs.units[one] < Math.min(FEW_PAIRS, units / 2);
    const whole = share && !side.outcomes.units && !pairs.graded[one] && Math.abs(difference - (more - less) / n) < SAME;
    const half = quantile * Math.sqrt(squares[one] * units / (units - 1));
    const wide = scarce || !half ? null : [difference - half, difference + half];
    const score = whole ? tangoLimits(more, less, n, normal) : null;
    const limits = difference === null || units < FEWEST_UNITS ? null
      : wide && score ? [Math.min(wide[0], score[0]), Math.max(wide[1], score[1])] : wide ?? score;
    const p = limits && whole && more + less < EXACT_PAIRS ? exactP(more, less) : null;
    found.difference.push(difference);
    found.low.push(limits && end(limits[0]));
    found.high.push(limits && end(limits[1]));
    found.p.push(p);
    found.few.push(difference !== null && !limits);
    found.differs.push(limits && (limits[0] > 0 || limits[1] < 0) && (p === null || p <= 1 - side.outcomes.level));
  }
  return found;
}

// Of each policy of a side and one of the other: on how many examples both have a value, it does better, or worse; on how
// many a value is neither 0 nor 1; and in how many resampling units, or examples, the two differ.
function discordantPairs(side, other, base) {
  const [count, width] = [side.estimate.length, other.estimate.length];
  const [codes, others] = [codesOf(side.outcomes), codesOf(other.outcomes)];
  const valueOf = ({ outcomes: { low, high, levels } }) => Float64Array.from({ length: levels + 1 }, (_, code) => low + code * (high - low) / levels);
  const [values, theirs] = [valueOf(side), valueOf(other)];
  const same = Math.max(values[1] - values[0], theirs[1] - theirs[0]) / 2;  // half a step
  const unitOf = side.outcomes.units;
  const seen = unitOf && new Uint8Array(side.outcomes.count * count);
  const [n, more, less, graded, units] = Array.from({ length: 5 }, () => new Array(count).fill(0));
  for (let example = 0; example * count < codes.length; example += 1) {
    const own = others[example * width + base];
    if (own < 0) continue;
    const value = theirs[own];
    for (let one = 0; one < count; one += 1) {
      const code = codes[example * count + one];
      if (code < 0) continue;
      const apart = values[code] - value;
      n[one] += 1;
      if ((values[code] !== 0 && values[code] !== 1) || (value !== 0 && value !== 1)) graded[one] += 1;
      if (Math.abs(apart) <= same) continue;
      if (apart > 0) more[one] += 1;
      else less[one] += 1;
      const unit = unitOf ? unitOf[example] * count + one : -1;
      if (unit < 0 || !seen[unit]) units[one] += 1;
      if (unit >= 0) seen[unit] = 1;
    }
  }
  return { n, more, less, graded, units: unitOf ? units : units.map(() => Infinity) };
}

// What the limits are that the page computes, in words.
function saidOfComputed(level, found, outcomes) {
  const kind = outcomes.share ? `${100 * level} % limits, each of one difference alone, which this page computes from all outcomes in steps of 1/${outcomes.levels}: `
    + `t intervals, of outcomes of 0 and 1 at least as wide as Tango's score limits, which stand alone where fewer than ${FEW_PAIRS} examples differ`
    : `${100 * level} % t intervals, each of one difference alone, which this page computes from all outcomes in steps of 1/${outcomes.levels}`;
  const few = found.few.some(Boolean) ? "; no limits, but the word few, where too few examples or clusters differ" : "";
  return `${kind}${few}${found.graded && outcomes.changes ? "; fixes and flips of less than a step are not counted" : ""}`;
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
