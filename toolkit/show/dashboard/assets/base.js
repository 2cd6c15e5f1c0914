// Elements, texts and numbers. Every text reaches the page as text: nothing here makes markup of one.

const ready = (id) => JSON.parse(document.getElementById(id).textContent);
const place = (id) => document.getElementById(id);

// element("td", {class: "number", on: {click: f}}, "text", anotherElement)
function element(tag, given, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (name === "on") for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    else if (value === null || value === undefined) continue;
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Gives a place new contents; whoever was at one of its controls by keyboard stays at it.
function fill(id, ...children) {
  const held = place(id).contains(document.activeElement) ? document.activeElement.id : "";
  place(id).replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  if (held && place(held) && document.activeElement !== place(held)) place(held).focus({ preventScroll: true });
}

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]/gu;

// A text with what would hide in it, or turn it around, spelled out; lines and tabs stay.
function visible(text) {
  return text.replace(HIDDEN, (sign) => {
    if (sign === "\n" || sign === "\t") return sign;
    const code = sign.codePointAt(0);
    if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
    return "\\u" + (code < 0x10000 ? code.toString(16).padStart(4, "0") : `{${code.toString(16)}}`);
  });
}

// A number as the tables of the command line write it.
function shown(form, value, signed = false) {
  if (value === null || value === undefined) return "–";
  const scaled = value * form.scale;
  const size = Math.abs(scaled);
  let decimals = form.decimals;
  if (form.significant && size > 0 && size < 1) {
    decimals = Math.max(decimals, form.significant - 1 - Math.floor(Math.log10(size)));
  }
  const near = rounded(size, decimals);
  const text = numberFormat(decimals).format(near);
  return (scaled < 0 && near ? "−" : signed && near ? "+" : "") + text;
}

function withLimits(form, value, low, high, signed = false) {
  const told = shown(form, value, signed);
  return low === null || low === undefined || high === null ? told
    : `${told} [${shown(form, low, signed)}, ${shown(form, high, signed)}]`;
}

const counted = (count, one, many) => `${numberFormat(0).format(count)} ${count === 1 ? one : many || one + "s"}`;

function button(id, name, heard, disabled = false) {
  return element("button", { type: "button", id, disabled, on: { click: heard } }, name);
}

// A choice among texts with its name before it; `chosen` and what is heard are places in the list.
function choice(id, name, texts, chosen, heard) {
  const options = texts.map((text, at) => element("option", { value: String(at), selected: at === chosen }, text));
  const select = element("select", { id, on: { change: (event) => heard(Number(event.target.value)) } }, ...options);
  return element("span", { class: "choice" }, element("label", { for: id }, name), " ", select);
}

// A part of the page, and the link to it, where there is something to show.
function showPart(id, there) {
  place(id).hidden = !there;
  for (const link of document.querySelectorAll(`.parts a[href="#${id}"]`)) link.hidden = !there;
}

// The head and the body of a table. A row is cells, or an element; a cell is a text, a number, or an element.
function tableOf(heads, rows) {
  const text = (value) => (value === null || value === undefined ? "–" : String(value));
  const cell = (value) => (value instanceof Element ? value
    : element("td", { class: typeof value === "number" ? "right" : "left" }, text(value)));
  const line = (row) => (row instanceof Element ? row : element("tr", null, ...row.map(cell)));
  return [element("thead", null, element("tr", null, ...heads.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", null, ...rows.map(line))];
}

// Data that lie packed in the page, null for none; what held them goes.
async function unpack(id) {
  const packed = atob(place(id).textContent.trim());
  if (!packed) return null;
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());
  place(id).remove();
  return data;
}

function listed(items, name) {
  return items.length ? element("ul", { class: name || "" }, ...items.map((item) => element("li", null, item))) : null;
}
