// What the kit's parts are called in these scripts, and figures as a run has them.

const {byId, el, fill, replace, scroller, svg, format} = kt;
const {ends, line, number: coordinate, picture, sparkline, triangle, valueAxis} = kt.drawing;
const {NONE, quantity, number: figure} = format;

const whole = (value) => figure(value, 0);
const percent = (fraction, digits = 2, signed = true) => format.percent(fraction, digits, signed);
const count = kt.plural;

/** Class of a change, as two decimals of a per cent show it. */
const tone = (value) => (value >= 0.00005 ? "up" : value <= -0.00005 ? "down" : "flat");

/** A price in units of currency, with as many decimals as it needs and at least two. */
const price = (value) => quantity(value, 2);

/** A part of a NAV; unknown where there is nothing to be a part of. */
const partOf = (value, nav) => (nav > 0 ? value / nav : null);

/** Text of a part of the page: of its own, or as its differences from data that pages share. */
async function unpack(name) {
  const text = await kt.unpack(byId(`data-${name}`).textContent);
  const base = window.ktdevalBase;
  if (!base) return text;
  return kt.restored(name in base ? await kt.unpack(base[name]) : "", JSON.parse(text));
}
const unpackValue = async (name) => JSON.parse(await unpack(name));

/** Item of the list of labels: the name that a reader must see, and its meaning. */
const label = (name, meaning) => el("li", {}, el("strong", {}, name.toUpperCase()), ` ${meaning}`);
const labelOf = (name) => {
  const {shown, meaning} = kt.values.words.labels[name];
  return label(shown || name, meaning);
};

/** How many of all are left, in words. */
function countLeft(left, all, name) {
  const words = count(all, name);
  return left === all ? words : `${whole(left)} of ${words}`;
}

/** A table of the kit, with its caption and as wide as its place. `kind`: class of its style. */
function wideTable({kind, ...given}) {
  const region = kt.table.plain({...given, showCaption: true});
  region.classList.remove("fit");
  if (kind) region.firstChild.classList.add(kind);
  return region;
}
const numberHead = (text) => ({text, n: true});

/** Words that a reader has typed into a field, in small letters. */
const typedWords = (id) => byId(id).value.toLowerCase().split(/\s+/).filter(Boolean);

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
  window.addEventListener("unhandledrejection", ({reason}) =>
    fail(`${reason.name}: ${reason.message}`),
  );
  start();
}
