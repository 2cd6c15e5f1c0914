// What every page has: the one rounding of numbers, how they are written, and the elements of small pictures.

const formats = new Map();  // to make one takes as long as to write a hundred numbers

function numberFormat(decimals) {
  if (!formats.has(decimals)) {
    formats.set(decimals, new Intl.NumberFormat("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  }
  return formats.get(decimals);
}

// The one rounding, as in toolkit/rounding.py: of the decimal number with twelve digits, halves away from zero.
function rounded(size, decimals) {
  const [digits, power] = size.toExponential(11).split("e");
  const shifted = Math.round(Number(`${digits}e${Number(power) + decimals}`));
  return Number(`${shifted}e${-decimals}`);
}

function drawing(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
