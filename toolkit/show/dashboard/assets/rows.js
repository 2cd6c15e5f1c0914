// The picture of one question's retrieval rounds, hop by hop, and that of one text's checks: what each round showed,
// what the picked policies made of it, and where they stopped or acted.

const VERDICTS_OF = { supported: ["supported", "+"], refuted: ["refuted", "−"], not_enough: ["not enough", "?"] };

// The rows of a table on one example, with what each of some policies made of those that it paid.
function rowsOn(data, table, example, numbers) {
  const known = data.rows && data.rows[table];
  if (!known) return { rows: [], paid: [] };
  if (!known.starts) {
    known.starts = starts(known.example, data.ids.length);
    for (const one of known.paid) {
      let row = 0;
      one.at = new Map(one.row.map((step, index) => [row += step, index]));
    }
  }
  const rows = rowsAt(known, example);
  const paid = numbers.flatMap((number) => known.paid.filter((one) => one.policy === number).map((one) => {
    const mine = new Map(rows.filter((row) => one.at.has(row)).map((row) => [row, one.at.get(row)]));
    return { number, name: policy(number).called, rows: mine, of: one };
  })).filter((one) => one.rows.size);
  return { known, rows, paid };
}

function rowBlocks(data, example, numbers) {
  return data.rows ? [...roundBlocks(data, example, numbers), ...checkBlocks(data, example, numbers)] : [];
}

const groupedBy = (rows, key) => {
  const groups = new Map();
  for (const row of rows) groups.set(key(row), [...(groups.get(key(row)) || []), row]);
  return [...groups.values()];
};

function blockOf(name, title, charts, explanation, more) {
  const frame = (block, at) => element("section", { class: "block" }, element("h4", null, title),
    block.words ? element("div", { id: `block-${at}-words`, class: "wide words", tabIndex: 0, role: "region", "aria-label": `${title}, word by word` }) : null,
    ...charts.map((chart) => element("div", { id: `block-${at}-${chart}`, class: "chart" })),
    element("p", { class: "quiet" }, explanation), element("details", { id: `block-${at}-numbers` }),
    element("p", { class: "unseen" }, more.ends.map((one) => `${one.name}: ${one.said}`).join(". ")));
  return Object.assign(more, { frame });
}

// ---- rounds ----

function roundBlocks(data, example, numbers) {
  const { known, rows, paid } = rowsOn(data, "rounds", example, numbers);
  const text = (code) => (code < 0 ? "" : data.words[code]);
  return groupedBy(rows, (row) => `${known?.pool[row]}/${known?.hop[row]}`).flatMap((mine) => {
    const readers = paid.filter((one) => mine.some((row) => one.rows.has(row)));
    if (!readers.length) return [];
    const [first] = mine;
    const last = !rows.some((row) => known.pool[row] === known.pool[first] && known.hop[row] > known.hop[first]);
    const called = new Map();  // what a cluster is called: its first answer
    for (const row of mine) for (const [cluster, word] of known.answers[row]) {
      if (!called.has(cluster)) called.set(cluster, `${text(word)} (${cluster})`);
    }
    const most = Math.max(1, ...mine.flatMap((row) => known.answers[row].map(([, , count]) => count)));
    const clusters = mine.flatMap((row, at) => known.answers[row].map(([cluster, , count]) => ({
      step: at + 1, round: known.round[row], row: [...called.keys()].indexOf(cluster), answer: called.get(cluster), cluster,
      answers: count, size: 40 + 160 * (count / most),
    })));
    const rewards = readers.flatMap((one, row) => mine.flatMap((each, at) => {
      if (!one.rows.has(each)) return [];
      const index = one.rows.get(each);
      const value = (name) => (one.of[name] ? one.of[name][index] : null);
      const factor = value("factor");
      const moved = text(value("moved"));
      return [{
        row, step: at + 1, name: one.name, round: known.round[each], frontier: text(value("frontier")) || "empty", leader: value("leader"),
        answer: value("leader") === null ? "none" : called.get(value("leader")) ?? `(${value("leader")})`,
        reward: factor !== null ? "weighed by a factor" : value("rewarded") ? "rewarded" : "not rewarded", factor,
        "moved up": moved || "none", ups: moved ? moved.split(", ").length : 0, more: moved.endsWith("…"),
      }];
    }));
    const ends = readers.map((one, row) => {
      const read = mine.filter((each) => one.rows.has(each)).length;
      const quality = last && data.outcomes.quality ? ` ${data.outcomes.quality.replace(" %", "")} ${sign(outcome(data, "correct", one.number, example), data)}${data.outcomes.quality.endsWith("%") ? " %" : ""}` : "";
      return { row, name: one.name, from: 0.5, step: read + 0.4, rounds: read, said: `${counted(read, "round")};${quality || " further hops follow"}`, short: quality.trim() };
    });
    const question = text(known.question[first]);
    const title = `${known.pools[known.pool[first]]}, hop ${known.hop[first]}${question ? `: ${question}` : ""}`;
    const block = { ends, steps: mine.map((_, at) => ({ step: at + 1 })), called: [...called.values()], clusters, rewards, kind: "rounds", draw: drawRounds,
      slice: known.pools[known.pool[first]], hop: known.hop[first] };
    for (const one of ends) one.said = one.said.replace(/;$/, "");
    return [blockOf("rounds", title, ["clusters", "stops"],
      "First, how many of each round's answers are in each cluster, whose number is in brackets. Then, above each round that a policy read, the clusters of its frontier "
      + "with their support, in the colour of the leader; below, ↑ counts the documents that it moved up, beside relevance alone; where there is no room, the numbers have them. A line ends where a policy stopped.", block)];
  });
}

// What stands above a round of a policy and below it, as far as there is room: its frontier as (cluster) support, and
// its factor with the number of documents that moved up.
function roundWords(one, room) {
  const ups = one.ups ? `↑${one.ups - (one.more ? 1 : 0)}${one.more ? "+" : ""}` : "";
  const factor = one.factor === null ? "" : `×${shown({ scale: 1, decimals: 2 }, one.factor)}`;
  const members = one.frontier.split(", ").map((member) => member.replace(/^(-?\d+): /, "($1) "));
  const fitting = (...texts) => texts.find((text) => wide(text) <= room) ?? "";
  return { words: fitting(members.join(", "), members[0], ""), below: fitting(`${factor} ${ups}`.trim(), ups, "") };
}

function drawRounds(block, at) {
  const own = placesOfBlock(block, place(`block-${at}-stops`).clientWidth);
  own.answers = block.called;
  own.ticks = block.steps.map((one) => one.step);
  const room = own.wide / block.reach - 6;
  numbersBelow(`block-${at}-numbers`, ["policy", "round", "answers by cluster", "frontier: support", "reward", "moved up"],
    block.rewards.map((one) => [one.name, one.round,
      block.clusters.filter((each) => each.step === one.step).map((each) => `${each.answer}: ${each.answers}`).join(", ") || "none",
      one.frontier, one.factor === null ? one.reward : `× ${shown({ scale: 1, decimals: 3 }, one.factor)}`, one["moved up"]]));
  const legend = legendOf(["rewarded", "not rewarded", "weighed by a factor"], own);
  const below = (one) => (own.narrow && one.short ? [`→ ${one.short}`] : []);
  const lines = block.ends.map((one) => [...lined(one.name, own.names - 8), ...below(one)]);
  const stops = block.ends.map((one) => ({ ...one, words: own.narrow ? "" : cutTo(one.short, own.right - 12) }));
  const rewards = block.rewards.map((one) => ({ ...one, ...roundWords(one, room) }));
  const told = block.clusters.map((one) => `round ${one.round}: ${one.answers} of ${one.answer}`).slice(0, 30).join(", ");
  return Promise.all([
    draw(`block-${at}-clusters`, "clusters", { ...own, called: block.called, each: 28, description: `Answers of each round: ${told}` }, { clusters: block.clusters }),
    draw(`block-${at}-stops`, "rewards", { ...own, ...legend, ...inRows(lines, 50), bottom: 42, description: block.ends.map((one) => `${one.name}: ${one.said}`).join("; ") },
      { rewards, stops }),
  ]);
}

// ---- checks ----

function checkBlocks(data, example, numbers) {
  const { known, rows, paid } = rowsOn(data, "checks", example, numbers);
  const text = (code) => (code < 0 ? "" : data.words[code]);
  return groupedBy(rows, (row) => known.pool[row]).flatMap((mine) => {
    const payers = paid.filter((one) => mine.some((row) => one.rows.has(row)));
    if (!payers.length) return [];
    const length = Math.max(data.length?.[example] ?? 0, ...mine.map((row) => known.position[row]));
    const seen = data.seen ? data.seen[example] : null;
    const claims = [...new Set(mine.filter((row) => text(known.verdict[row]) !== "none").map((row) => known.claim[row]))];
    const at = new Map();
    const checks = mine.filter((row) => text(known.verdict[row]) !== "none").map((row) => {
      const [claim, position] = [known.claim[row], known.position[row]];
      const before = at.get(`${claim}/${position}`) || 0;
      at.set(`${claim}/${position}`, before + 1);
      const by = payers.filter((one) => one.rows.has(row));
      const buzz = by.filter((one) => one.of.buzz[one.rows.get(row)]);
      const [verdict, mark] = VERDICTS_OF[text(known.verdict[row])];
      return {
        row: claims.indexOf(claim), claim, round: known.round[row], stage: text(known.stage[row]), step: position, shift: 7 * before, verdict, mark,
        confidence: known.confidence[row] === null ? "–" : shown({ scale: 1, decimals: 2 }, known.confidence[row]),
        matches: known.matches[row] === null ? "–" : known.matches[row] ? "yes" : "no", text: text(known.text[row]),
        paid: by.map((one) => one.name).join(", ") || "none of the picked", opacity: by.length ? 1 : 0.25, buzz: buzz.map((one) => one.name), by: by.length,
      };
    });
    const acted = data.outcomes.units.find(([name]) => name === "position");
    const ends = payers.map((one, row) => {
      const word = acted ? acted[1][one.number * data.ids.length + example] : null;
      const heard = [...one.rows.keys()].map((each) => known.position[each]);
      const code = outcome(data, "answer", one.number, example);
      const said = `${code < 0 ? "no answer" : data.words[code]} ${sign(outcome(data, "correct", one.number, example), data)}`;
      const acts = word !== null && word !== undefined;
      const far = Math.max(...heard, acts ? word : length);
      return { row, number: one.number, name: one.name, from: 0, step: acts ? word : far, acts, rounds: one.rows.size, heard: `${far} of ${length} words`,
        acted: acts ? `at word ${word}` : "nowhere", brief: `${acts ? `word ${word}` : "never"} ${sign(outcome(data, "correct", one.number, example), data)[0]}`, said: acts ? `at word ${word}: ${said}` : said };
    });
    const block = {
      ends, steps: Array.from({ length }, (_, word) => ({ step: word + 1 })), claims, checks, seen, length, kind: "checks", draw: drawChecks, question: null, slice: known.pools[known.pool[mine[0]]],
      moments: [...checks.map((one) => one.step), ...ends.map((one) => one.step), length],
      names: claims.map((claim) => { const one = checks.find((check) => check.claim === claim); return `${claim}${one.text ? `: ${one.text}` : ""}`; }),
    };
    block.words = (question) => { block.question = question; drawWords(block); };
    return [blockOf("checks", `${known.pools[known.pool[mine[0]]]}: claims and their checks`, ["claims", "stops"],
      "Each mark is a round of a claim at the word to which the text had come, faint where no picked policy paid it. A line is how far a policy listened, "
      + "a triangle where it acted; the dashed line is the word from which on the error can be seen.", block)];
  });
}

// The text on one line: its words where they are known, each round as [claim.round verdict], who acts, and the error.
function lineOf(block) {
  // white space as the log's positions know it, which is not that of \s here
  const words = (block.question || "").split(/[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/).filter(Boolean);
  const named = words.length === block.length;
  const marks = new Map();
  const put = (word, ...parts) => marks.set(word, [...(marks.get(word) || []), ...parts]);
  if (block.seen !== null) put(block.seen, element("b", { class: "error" }, "◆ error seen"));
  const markOf = (one) => element("span", { class: "check", title: `${one.verdict}, confidence ${one.confidence}` }, `[${one.claim}.${one.round} ${one.mark}]`);
  const flags = (one) => one.buzz.map((name) => element("b", { class: "buzz" }, `▲ ${name}`));
  const paid = block.checks.filter((one) => one.by);
  for (const one of paid.filter((check) => check.stage === "stream")) put(one.step, markOf(one), ...flags(one));
  const parts = [];
  let blank = 0;
  const end = Math.min(block.length, play.now);
  for (let word = 0; word <= end; word += 1) {
    if (word && named) parts.push(visible(words[word - 1]));
    else if (word) blank += 1;
    if (blank && (marks.has(word) || word === end)) {
      parts.push(element("i", null, counted(blank, "word")));
      blank = 0;
    }
    parts.push(...(marks.get(word) || []));
  }
  if (end < block.length) return parts.flatMap((part) => [part, " "]);
  const later = paid.filter((one) => one.stage === "revision").flatMap((one) => [markOf(one), ...flags(one)]);
  return (later.length ? [...parts, "‖ after its end", ...later] : parts).flatMap((part) => [part, " "]);
}

function drawWords(block) {
  if (block.at !== undefined && place(`block-${block.at}-words`)) place(`block-${block.at}-words`).replaceChildren(...lineOf(block));
}

function drawChecks(block, at) {
  block.at = at;
  drawWords(block);
  const own = placesOfBlock(block, place(`block-${at}-stops`).clientWidth);
  Object.assign(own, { steps: [0, block.reach + 1], mark: 70 });
  numbersBelow(`block-${at}-numbers`, ["word", "claim", "round", "stage", "text", "verdict", "confidence", "names the error", "paid by", "acts"],
    block.checks.map((one) => [one.step, one.claim, one.round, one.stage, one.text || "–", one.verdict, one.confidence, one.matches, one.paid, one.buzz.join(", ") || "–"]));
  const verdicts = legendOf(["supported", "refuted", "not enough"], own);
  const error = block.seen === null ? [] : [{ step: block.seen }];
  const below = (end) => (own.narrow ? [`→ ${end.brief}`] : []);
  const lines = block.ends.map((end) => [...lined(end.name, own.names - 8), ...below(end)]);
  const left = (end) => own.wide * (1 - end.step / (block.reach + 1)) + own.right - 12;
  const stops = block.ends.map((end) => ({ ...end, words: own.narrow ? "" : cutTo(end.said, left(end)) }));
  const rows = inRows(block.names.map((name) => [cutTo(name, own.names - 8)]));
  return Promise.all([
    draw(`block-${at}-claims`, "claims", { ...own, ...verdicts, ...rows, description: `Checks of ${counted(block.claims.length, "claim")}` }, { checks: block.checks, error }),
    draw(`block-${at}-stops`, "buzzes", { ...own, ...inRows(lines), bottom: 42, description: block.ends.map((end) => `${end.name}: ${end.said}`).join("; ") }, { stops, error }),
  ]);
}
