// The picture of one question, played: traces, rounds and checks come one by one, and each policy stops as it goes.

const ALL = 1e9;
const play = { now: ALL, turn: 0, on: false, pause: 700 };

// The places at which something happens in some block, in order.
function moments() {
  const of = (block) => (block.moments || block.steps.map((one) => one.step));
  return [...new Set(shownBlocks.flatMap(of))].sort((one, other) => one - other);
}

function playControls() {
  Object.assign(play, { now: ALL, turn: play.turn + 1, on: false });
  const all = moments();
  if (all.length < 2) return [];
  const move = (event) => { stopPlaying(); showMoment(Number(event.target.value)); };
  const bar = element("input", { id: "play-bar", type: "range", min: "0", max: String(all.length), value: String(all.length), on: { input: move } });
  return [button("play", "▶ play", () => (play.on ? stopPlaying() : startPlaying())),
    element("label", { for: "play-bar" }, "shown as far as "), bar, element("output", { id: "play-said", for: "play-bar" }, "its end")];
}

function stopPlaying() {
  play.on = false;
  play.turn += 1;
  if (place("play")) place("play").textContent = "▶ play";
}

async function startPlaying() {
  stopPlaying();
  play.on = true;
  const { turn } = play;
  place("play").textContent = "❚❚ pause";
  const last = moments().length;
  const from = Number(place("play-bar").value);
  for (let at = from >= last ? 0 : from + 1; at <= last; at += 1) {
    await showMoment(at);
    await new Promise((done) => { setTimeout(done, play.pause); });
    if (play.turn !== turn || !place("play")) return;
  }
  stopPlaying();
}

// Shows what there is after so many moments; after the last one it is the whole picture.
function showMoment(at) {
  const all = moments();
  const here = at ? all[at - 1] : 0;
  play.now = at >= all.length ? ALL : here;
  const ended = shownBlocks.flatMap((block) => block.ends.filter((end) => Math.floor(end.step) === here)).map((end) => `${end.name}: ${end.said}`);
  const said = (at >= all.length ? "its end" : at ? String(here) : "the beginning") + (ended.length ? `; here stops ${ended.join("; ")}` : "");
  place("play-bar").value = String(at);
  place("play-bar").setAttribute("aria-valuetext", said);
  place("play-said").textContent = said;
  showTextsSoFar();
  return drawBlocks();
}

function showTextsSoFar() {
  for (const text of document.querySelectorAll("#texts .text[data-step]")) {
    text.classList.toggle("later", play.now !== ALL && Number(text.dataset.step) > play.now);
  }
}
