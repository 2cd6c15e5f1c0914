// What is drawn when. The table comes first, before Vega is read; the charts follow.

function drawHead() {
  const found = current();
  fill("takeaway", found.takeaway || "No two policies can be ranked here.");
  fill("basis", found.basis);
  fill("warnings", listed(found.warnings));
  place("warnings").hidden = !found.warnings.length;
  fill("notes", listed(found.notes));
  const { all, reasons, most } = found.leftOutBy;
  const rows = found.leftOut.map((row) => element("tr", null, ...row.map((text) => element("td", null, text))));
  const counts = most.map(([why, size]) => `${size.toLocaleString("en-US")}: ${why}`).join("; ");
  const further = reasons > most.length ? `; ${counted(reasons - most.length, "other reason", "other reasons")}` : "";
  const cut = all > found.leftOut.length && found.leftOut.length ? ` The first ${found.leftOut.length} are listed. By reason: ${counts}${further}.` : "";
  fill("left-out-said", all ? `${counted(all, "policy or example was", "policies and examples were")} left out.${cut}`
    : "No policy was dropped and no example left out.");
  place("left-out").hidden = !found.leftOut.length;
  fill("left-out-body", ...rows);
  fill("result-controls", results.length > 1
    ? choice("result", "result", results.map((one) => one.name), state.result, (to) => change({ result: to })) : null);
}

function drawFirst() {
  if (!incomplete()) readAddress();
  watch([], drawHead);
  watch(["only"], drawControls);
  watch(["columns", "find", "sort", "down", "only", "picked", "settings", "open"], drawTable);
  drawHead();
  drawControls();
  drawTable();
  document.body.dataset.ready = "table";
  requestAnimationFrame(() => setTimeout(() => performance.mark("table")));
}

// Names, legends and a question's picture are laid out for a width: another one has them drawn again.
function heardWidth() {
  let waiting = null;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { if (window.innerWidth !== state.width) change({ width: window.innerWidth }); }, 120);
  });
}

const PRINTED = ["left-out", "forest-numbers", "changes-numbers", "headroom-numbers", "captured-numbers", "curves-numbers", "results-numbers", "against-numbers", "against-changes-numbers"];

// On paper nothing opens: what is closed is open there, and closed again after.
function heardPaper() {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = PRINTED.map(place).filter((one) => !one.open);
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
    delete document.body.dataset.print;
  });
  place("print-all").addEventListener("click", () => {
    document.body.dataset.print = "all";
    window.print();
  });
}

async function drawCharts() {
  const late = incomplete();
  await Promise.all([readRest(), readPair()]);
  if (late) {
    readAddress();
    for (const part of [drawHead, drawControls, drawTable]) part();
  }
  window.addEventListener("hashchange", readAddress);
  heardPaper();
  watch(["cost"], drawCosts);
  watch(["cost", "picked", "sweeps", "width"], drawPlane);
  watch(["picked"], drawFacts);
  watch(["sweeps", "width"], moveSweeps);
  watch(["baseline"], drawBaselines);
  watch(["baseline", "find", "only", "sort", "down", "picked", "width"], drawDifferences);
  watch(["find", "only", "sort", "down", "picked", "width"], drawHeadroom);
  watch(["pool", "width"], drawCurves);
  watch(["side", "width"], drawResults);
  watch(["mine", "theirs", "width"], drawAgainst);
  watch(["mine", "theirs", "turned", "example", "between"], () => drawChanged());
  watch(["picked", "example", "show", "group", "seek", "others"], () => drawExamples());
  watch(["width"], () => drawBlocks());
  heardWidth();
  for (const part of [drawCosts, drawPlane, drawFacts, drawSweeps, drawBaselines, drawDifferences, drawHeadroom, drawCurves, drawResults, drawAgainst]) part();
  Promise.all([drawExamples(), drawChanged()]).then(() => Promise.all([...drawn.values()].map((one) => one.turn))).then(() => {
    document.body.dataset.ready = "all";
    performance.mark("charts");
  });
}
