// The one rounding of numbers, and how they are written, for every page.

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
