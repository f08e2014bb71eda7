// Elements, figures and packed data. Whatever a model or a plugin wrote becomes a text node, never markup.

const byId = (id) => document.getElementById(id);

/** An element: `make("td.n", {title: "…"}, "text", element, …)`; null and undefined are left out. */
function make(description, attributes, ...children) {
  const [name, ...classes] = description.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  return fill(element, ...children);
}

function fill(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

function replace(element, ...children) {
  element.replaceChildren();
  return fill(element, ...children);
}

function drawing(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return fill(element, ...children);
}

/** A box of its own that scrolls sideways where the screen is narrow; reachable by keyboard, and so it has a name. */
function scroller(label, ...children) {
  return make("div.scroll", {role: "region", tabindex: "0", "aria-label": label}, children);
}

// -- figures

const UNKNOWN = "–";
const NARROW = "\u202f";
const formats = new Map();

function figure(value, digits = 2, signed = false, most = digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const key = `${digits} ${most} ${signed}`;
  if (!formats.has(key)) {
    formats.set(key, new Intl.NumberFormat("en-US", {
      minimumFractionDigits: digits, maximumFractionDigits: most, signDisplay: signed ? "exceptZero" : "negative",
    }));
  }
  return formats.get(key).format(value).replace("-", "−");
}

const whole = (value) => figure(value, 0);
const percent = (fraction, digits = 2, signed = true) =>
  fraction === null || fraction === undefined ? UNKNOWN : `${figure(100 * fraction, digits, signed)}${NARROW}%`;
/** A number of shares, which may be a fraction, with as many decimals as it needs. */
const quantity = (value) => figure(value, 0, false, 8);
const count = (number, noun) => `${quantity(number)} ${noun}${number === 1 ? "" : "s"}`;
const tone = (value) => (value >= 0.00005 ? "up" : value <= -0.00005 ? "down" : "flat"); // as two decimals of a per cent show it

/** A price in units of currency, with as many decimals as it needs and at least two. */
const price = (value) => figure(value, 2, false, 8);
/** A part of a NAV; unknown where there is nothing to be a part of. */
const partOf = (value, nav) => (nav > 0 ? value / nav : null);

// -- data

async function unpack(name) {
  const packed = atob(byId(`data-${name}`).textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

const unpackValue = async (name) => JSON.parse(await unpack(name));

/** Start a page, or say on it what its browser lacks. */
function begin(start) {
  const fail = (problem) => {
    const box = byId("trouble");
    box.hidden = false;
    replace(box, `This page can't be shown: ${problem}`);
  };
  if (typeof DecompressionStream === "undefined") {
    fail("the browser is too old; it takes Chrome 97, Firefox 113 or Safari 16.4.");
    return;
  }
  window.addEventListener("unhandledrejection", ({reason}) => fail(`${reason.name}: ${reason.message}`));
  start();
}

/** The lowest and highest of a list that may be longer than a call can take arguments. */
const ends = (values) => [Math.min, Math.max].map((best) => values.reduce((one, other) => best(one, other)));

/** A polyline through points; a gap where y is null. */
function line(points, x, y) {
  let path = "";
  let pen = "M";
  points.forEach((value, place) => {
    if (value === null || value === undefined) {
      pen = "M";
      return;
    }
    path += `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

/** Round values between two ends, at most `most` of them. */
function ticks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place * step <= high + 1e-9 * step; place += 1) found.push(place * step);
  return found;
}
