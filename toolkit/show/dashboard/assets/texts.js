// The texts of a question, from a file of their own: each with what the picture says of its trace.

const CUT = 20000;
const VERDICT_SIGNS = { right: "✓ right", wrong: "✗ wrong", "part right": "◆ part right", unjudged: "unjudged" };
const GONE = `The texts are not there: keep the folder ${document.body.dataset.files} beside this page.`;
const loaded = new Map();
const whole = new WeakMap();

// Each file of texts calls this with what it holds: the texts of some examples, by their numbers.
window.thinkbackTexts = (result, file, texts) => {
  const waiting = loaded.get(`${result}-${file}`);
  if (waiting) waiting.found(texts);
};

function textsIn(result, file) {
  const key = `${result}-${file}`;
  if (!loaded.has(key)) {
    for (const other of loaded.keys()) if (other.startsWith(`${result}-`)) loaded.delete(other);  // what was shown before may be large
    const waiting = {};
    waiting.made = new Promise((found, failed) => { Object.assign(waiting, { found, failed }); });
    loaded.set(key, waiting);
    const script = element("script", { src: `${document.body.dataset.files}/${key}.js` });
    script.addEventListener("error", () => waiting.failed(new Error("gone")));
    script.addEventListener("load", () => script.remove());
    document.head.append(script);
  }
  return loaded.get(key).made;
}

// The traces whose texts are shown, in the order of the picture: those that picked policies paid, or all.
function textOrder(data, example, blocks) {
  const order = new Map();
  const { paths } = data;
  const put = (key, more) => order.set(key, { ...(order.get(key) || { key, steps: [] }), ...more });
  const pictures = blocks.filter((block) => !block.frame);
  for (const block of pictures) for (const step of block.steps) {
    const key = `${step.slice}/${step.sample}`;
    const steps = [...(order.get(key)?.steps || []), { at: step.step, rule: block.rule }];
    const scores = { ...(order.get(key)?.scores || {}), ...Object.fromEntries(step.each.map((each) => [each.verifier, each.score ?? "none"])) };
    put(key, { ...step, key, steps, scores });
  }
  for (const row of paths ? rowsAt(paths.traces, example) : []) {
    const key = `${paths.traces.slice[row]}/${paths.traces.sample[row]}`;
    if (order.has(key) || !(state.others || pictures.some((block) => block.generated.has(key)))) continue;
    put(key, { slice: paths.traces.slice[row], sample: paths.traces.sample[row], scores: {}, ...traceAt(data, row) });
  }
  return [...order.values()].map((one) => ({ ...one, key: `${paths.slices[one.slice]}/${one.sample}`, name: headingOf(paths.slices[one.slice], one) }));
}

// "votes, trace 3: ✓ right, 4; reflection 2; 96 tokens; 0.8 s": the numbers are those of the picture.
function headingOf(slice, one) {
  const numbers = one.steps.map(({ at, rule }, place) => (place ? `${at} in the order ${rule}` : `trace ${at}`));
  const scores = Object.entries(one.scores).map(([verifier, score]) => `${verifier} ${score}`);
  const number = (value, unit) => (typeof value === "number" ? [`${value.toLocaleString("en-US")} ${unit}`] : []);
  return `${slice}, ${numbers.join(", ") || `sample ${one.sample}, in no order of the picture`}: ` + [`${VERDICT_SIGNS[one.verdict]}, ${one.answer}`, ...scores,
    ...number(one.tokens, "tokens"), ...number(one.seconds, "s")].join("; ");
}

async function drawTexts(data, example, blocks) {
  const result = state.result;
  let texts;
  try {
    texts = (await textsIn(result, data.texts[example]))[example];
  } catch {
    fill("texts", element("p", { role: "alert" }, GONE));
    return;
  }
  if (result !== state.result || data.ids[example] !== state.example || !place("texts")) return;
  const search = element("input", { id: "within", type: "search", on: { input: () => mark(search.value) } });
  for (const block of blocks) if (block.words) block.words(texts.question);
  const traceTexts = new Map(Object.entries(texts.traces).flatMap(([slice, samples]) =>
    Object.entries(samples).map(([sample, text]) => [`${slice}/${sample}`, text])));
  const parts = textOrder(data, example, blocks).filter((one) => traceTexts.has(one.key))
    .map((one) => textOf(one.name, traceTexts.get(one.key), `text-${one.key}`, one));
  fill("texts", element("h4", null, "texts"),
    element("p", null, element("label", { for: "within" }, "search in these texts ", search), " ", element("output", { id: "within-count", for: "within" })),
    texts.question ? textOf("question", texts.question, "text-question") : null, ...parts);
  showTextsSoFar();
}

function textOf(name, text, id, trace) {
  const body = element("pre", { tabIndex: 0, "aria-label": name });
  const all = visible(text);
  whole.set(body, { all, end: CUT });
  body.textContent = all.slice(0, CUT);
  const made = element("details", { class: "text", id, open: true }, element("summary", null, name), body);
  if (trace) made.dataset.step = String(Math.min(...trace.steps.map(({ at }) => at)));
  if (all.length > CUT) {
    const further = () => {
      const { end } = whole.get(body);
      body.append(all.slice(end, end + 5 * CUT));
      whole.get(body).end = end + 5 * CUT;
      rest.hidden = end + 5 * CUT >= all.length;
    };
    const rest = element("button", { type: "button", on: { click: further } }, `show more of ${all.length.toLocaleString("en-US")} characters`);
    made.append(rest);
  }
  return made;
}

// Marks the places of a wanted text, at most a thousand, and hides the texts without one. Of a long text the part
// around its first place is shown.
function mark(wanted) {
  let count = 0;
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");
  for (const body of document.querySelectorAll("#texts pre")) {
    const { all, end } = whole.get(body);
    pattern.lastIndex = 0;
    const first = wanted ? all.search(pattern) : -1;
    const from = first >= end ? first - 200 : 0;
    const to = from + end;
    const parts = [];
    let at = from;
    for (const { 0: found, index } of first < 0 ? [] : all.matchAll(pattern)) {
      if (count === 1000) break;
      count += 1;
      if (index + found.length > to) continue;
      parts.push(all.slice(at, index), element("mark", null, found));
      at = index + found.length;
    }
    body.replaceChildren(from > 0 ? "… " : "", ...parts, all.slice(at, to));
    body.parentElement.hidden = wanted !== "" && first < 0;
  }
  place("within-count").textContent = wanted ? (count === 1000 ? "1,000 places or more" : counted(count, "place")) : "";
}

function toText(slice, sample) {
  const data = unpacked.get(state.result);
  data.then((known) => {
    const found = place(`text-${known.paths.slices[slice]}/${sample}`);
    if (found) { found.open = true; found.scrollIntoView({ block: "center" }); found.querySelector("summary").focus(); }
  });
}
