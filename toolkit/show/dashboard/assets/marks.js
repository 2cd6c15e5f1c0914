// What marks of a chart tell under the pointer, and by keyboard: one of them has a place in the order of Tab, arrows lead
// to its neighbours, Enter is a click.

const NOTHING = -2;
const IN_ROWS = new Set(["forest", "changes", "headroom", "captured", "results", "stops", "rewards", "buzzes"]);  // others go from left to right

// Vega names every mark for screen readers, and the numbers below say more in less: what remains is the chart's own name,
// and marks that can be reached, with what they tell.
function tidied(held, name) {
  const { inner } = held;
  for (const part of inner.querySelectorAll("[role], [aria-label], [aria-roledescription]")) {
    for (const attribute of ["role", "aria-label", "aria-roledescription", "aria-hidden"]) part.removeAttribute(attribute);
  }
  held.marks = marksOf(held);
  const nodes = new Set(held.marks.map(({ node }) => node));
  for (const part of inner.querySelectorAll("path[tabindex]")) if (!nodes.has(part)) part.removeAttribute("tabindex");
  const svg = inner.querySelector("svg");
  svg.setAttribute("role", held.marks.length ? "group" : "img");
  svg.setAttribute("aria-label", name || "chart");
  if (!held.marks.length) return;
  for (const part of svg.querySelectorAll(".role-axis, .role-legend, .role-title, .mark-text")) part.setAttribute("aria-hidden", "true");
  held.marks.forEach(({ node, item }) => {
    node.setAttribute("role", held.heard ? "button" : "img");
    node.setAttribute("aria-label", pairsOf(item.tooltip).map(([of, text]) => `${of} ${text}`.trim()).join(", ") || "mark");
    node.setAttribute("tabindex", "-1");
  });
  const at = placeOfMark(held);
  held.marks[at].node.setAttribute("tabindex", "0");
  if (held.back && !inner.contains(document.activeElement)) held.marks[at].node.focus({ preventScroll: true });
}

// The marks that tell something, in the order in which arrows lead through them.
function marksOf({ inner, chart }) {
  const marks = [...inner.querySelectorAll(".role-mark > path")].map((node) => ({ node, item: node.__data__ }))
    .filter(({ node, item }) => item?.tooltip && node.getAttribute("opacity") !== "0");
  const [first, second] = IN_ROWS.has(chart) ? ["y", "x"] : ["x", "y"];
  return marks.sort((one, other) => one.item[first] - other.item[first] || one.item[second] - other.item[second]);
}

// The mark that has the place in the order of Tab: that which had it, by its policy's number where marks are policies.
function placeOfMark({ marks, last }) {
  const same = marks.findIndex(({ item }) => last && item.datum.number !== undefined && item.datum.number === last.number);
  return same >= 0 ? same : Math.min(last?.at ?? 0, marks.length - 1);
}

function heardKeys(held) {
  const { inner } = held;
  const here = (node) => held.marks.findIndex((one) => one.node === node);
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  inner.addEventListener("keydown", (event) => {
    const at = here(event.target);
    if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in steps) held.marks[Math.min(Math.max(at + steps[event.key], 0), held.marks.length - 1)].node.focus();
    else if (held.heard && (event.key === "Enter" || event.key === " ")) {
      held.back = true;  // the marks are drawn anew, and whoever was at one is at it again
      held.heard(held.marks[at].item.datum);
    } else if (event.key === "Escape") hideTip();
    else return;
    event.preventDefault();
  });
  inner.addEventListener("focusin", ({ target }) => {
    const at = here(target);
    if (at < 0) return;
    const { item } = held.marks[at];
    for (const one of held.marks) one.node.setAttribute("tabindex", one.node === target ? "0" : "-1");
    held.last = { at, number: item.datum.number };
    const { right, bottom } = target.getBoundingClientRect();
    tip(null, { clientX: right, clientY: bottom }, item, item.tooltip);
    pointedAt(held, item);
  });
  inner.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !inner.contains(relatedTarget)) held.back = false;
    hideTip();
    pointedAt(held, null);
  });
}

// Tells a chart that asks for it which policy's mark is pointed at.
function pointedAt(held, item) {
  if (!held.points) return;
  const number = item?.datum?.number ?? NOTHING;
  if (number !== held.view.signal("under")) held.view.signal("under", number).runAsync().then(() => tidied(held, held.description));
}

function heardPointer(held) {
  held.view.addEventListener("mouseover", (event, item) => pointedAt(held, item));
  held.view.addEventListener("mouseout", () => pointedAt(held, null));
}

// What a mark tells: pairs of a name, empty where there is none, and a text.
function pairsOf(value) {
  if (value === null || value === undefined || value === "") return [];
  const pairs = typeof value === "object" ? Object.entries(value) : [["", value]];
  return pairs.filter(([, text]) => text !== "" && text !== "undefined").map(([name, text]) => [name, visible(String(text))]);
}

function hideTip() {
  place("tip").hidden = true;
}

// What a mark says where the pointer is.
function tip(handler, event, item, value) {
  const pairs = pairsOf(value);
  if (!pairs.length) {
    hideTip();
    return;
  }
  const box = place("tip");
  box.replaceChildren(...pairs.map(([name, text]) => element("div", null, name ? element("b", null, name + " ") : null, text)));
  box.hidden = false;
  const left = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8);
  const top = event.clientY + 14 + box.offsetHeight > window.innerHeight
    ? event.clientY - box.offsetHeight - 10 : event.clientY + 14;
  box.style.left = `${Math.max(left, 4)}px`;
  box.style.top = `${Math.max(top, 4)}px`;
}
