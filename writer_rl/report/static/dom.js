"use strict";
// Every text of the data reaches the page through text nodes: nothing of it is ever read as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== "") element.append(child);
  }
  return element;
}
const make = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const draw = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
const data = (text) => make("span", { className: "data", dir: "auto" }, String(text));
const read = (id) => JSON.parse(document.getElementById(id).textContent);

// Rounds are packed (deflate, base64): a long run opens fast, and a round is unpacked when it is first looked at.
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const small = value !== 0 && Math.abs(value) < 0.001;
  const text = Number.isInteger(value) ? String(value) : small ? value.toExponential(1) : value.toFixed(digits);
  return text.replace("-", "\u2212");
}

function table(head, rows, className) {
  const numeric = (text) => /^[\u2212+-]?[\d.,%]+$/.test(text);
  const cells = (row) => row.map((cell) => make("td", { className: numeric(String(cell)) ? "number" : "" }, data(cell)));
  return make("div", { className: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${head.join(", ")}` },
    make("table", { className },
      make("thead", {}, make("tr", {}, head.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, cells(row))))));
}
