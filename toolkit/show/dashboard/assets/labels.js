// Where names stand beside marks: each nearest to its own mark, on no other mark and no other name.

const LINE = 15;  // pixels that a name is high
const AWAY = [1, 4, 9, 14];  // pixels between a mark and its name
const SHARES = [0.5, 0.05, 0.95, 0.25, 0.75];  // how much of a name above or below a mark is at the left of it
const ROUNDS = 6;
const SIDES = [[0, 0], [1, 0], ...[-1, 1].flatMap((down) => SHARES.map((share) => [share, down]))];

// How far a point lies from a box with the edges left, right, top and bottom, in pixels.
function farFrom(box, x, y) {
  return Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
}

const overlap = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

// The box of a name of so many pixels beside a mark, above or below it.
function boxAt(mark, width, [share, down], away) {
  const gap = mark.r + away;
  const left = mark.x - share * width + (down ? 0 : gap * (1 - 2 * share));
  const top = down ? mark.y + down * gap - (down < 0 ? LINE : 0) : mark.y - LINE / 2;
  return { left, right: left + width, top, bottom: top + LINE };
}

// Places for the names of `marks` ({x, y, r, name}, the most important first) among `all` marks, within the plot and if
// possible on none of the `lines` (boxes). Names are as given where they fit, else numbers of a key, else absent:
// [box or null, text] of each. A mark that has no place comes first the next time, with a number.
function placedNames(marks, all, plot, lines) {
  let [order, best, least] = [marks, null, Infinity];
  const numbered = new Set();
  for (let round = 0; round < ROUNDS && least > 0; round += 1) {
    const places = placedInOrder(order, all, plot, lines, numbered);
    const without = order.filter((_, at) => !places[at][0]);
    if (without.length < least) [best, least] = [new Map(order.map((mark, at) => [mark, places[at]])), without.length];
    for (const mark of without) numbered.add(mark);
    order = [...without, ...order.filter((mark) => !without.includes(mark))];
  }
  return marks.map((mark) => best.get(mark));
}

function placedInOrder(marks, all, plot, lines, numbered) {
  const boxes = [];
  let keyed = 0;
  const free = (mark, text, clear) => {
    const width = wide(text) + 4;
    const taken = [...boxes, ...(clear ? lines : [])];
    for (const away of AWAY) {
      for (const side of SIDES) {
        const box = boxAt(mark, width, side, away);
        const own = farFrom(box, mark.x, mark.y);
        const inside = box.left >= 0 && box.right <= plot.width && box.top >= 0 && box.bottom <= plot.height;
        if (inside && !taken.some((one) => overlap(one, box)) && all.every((one) => one === mark
          || farFrom(box, one.x, one.y) > Math.max(own + 1, one.r))) return box;
      }
    }
    return null;
  };
  return marks.map((mark) => {
    const name = cutTo(mark.name, Math.max(90, 0.4 * plot.width)) + (mark.beyond || "");
    const number = String(keyed + 1);
    for (const [text, clear] of [[name, true], [name, false], [number, true], [number, false]].slice(numbered.has(mark) ? 2 : 0)) {
      const box = free(mark, text, clear);
      if (box) {
        boxes.push(box);
        keyed += text === number ? 1 : 0;
        return [box, text];
      }
    }
    return [null, ""];
  });
}

// Values at which an axis has ticks whose costs span a decade or more: one, two and five of each power of ten.
function decadeTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const digit of [1, 2, 5]) {
      const tick = Number(`${digit}e${power}`);
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
}
