// Parts that the panels of the page are made of.

import {during} from "./busy.js";
import {on, page} from "./state.js";

const {el, replace} = kt;

/** A panel with a heading. */
export const panel = (id, title, ...children) =>
  el(
    "section.pane",
    {id, tabindex: "-1", "aria-labelledby": `${id}-title`},
    el("h2", {id: `${id}-title`}, title),
    children,
  );

/** A line for what went wrong, which is empty at first and is said when it is filled. */
export function errorLine() {
  const element = el("div.error", {role: "alert"});
  return {
    element,
    show: (error) => replace(element, el("p.trouble", {}, String(error.message || error))),
    clear: () => replace(element),
  };
}

export const options = (list) => list.map(([value, text]) => el("option", {value}, text));

/** One of a few, as radio buttons that look like one control. */
export function switches(name, label, list, onChange) {
  const boxes = list.map(([value, text]) => {
    const box = el("input", {type: "radio", name, value, change: () => onChange(value)});
    return el(`label.switch.${value.toLowerCase()}`, {}, box, el("span", {}, text));
  });
  const element = el("fieldset.switches", {}, el("legend.unseen", {}, label), boxes);
  return {
    element,
    set: (value) => {
      for (const box of element.querySelectorAll("input")) box.checked = box.value === value;
    },
    get: () => element.querySelector("input:checked")?.value || "",
  };
}

/** Does work that takes time, once at a time for an element; a failure is shown in a line. */
export async function actOnce(element, error, act) {
  if (element.getAttribute("aria-busy")) return;
  element.setAttribute("aria-busy", "true");
  error.clear();
  try {
    await during(act());
  } catch (problem) {
    error.show(problem);
  } finally {
    element.removeAttribute("aria-busy");
  }
}

/** A button whose work takes time. */
export function actButton(text, act, error, attributes = {}) {
  const button = kt.button(text, () => actOnce(button, error, act), {
    class: "small",
    ...attributes,
  });
  return button;
}

/** A term and its value in a list of figures. */
export const figure = (term, value, classes = "") =>
  el("div", {"data-figure": term}, el("dt", {}, term), el(`dd${classes}`, {}, value));

/**
 * Draws the inside of an element anew, and gives the focus back to the element of the same
 * `data-key`.
 */
export function redraw(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.dataset.key;
  replace(element, children);
  if (!focused) return;
  const again = [...element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  (again || element.closest("section"))?.focus(); // where it is gone, Tab goes on from its panel
}

/** A table whose rows are drawn anew; columns: [[heading, isNumber], …]. */
export function liveTable(caption, columns, empty) {
  const body = el("tbody", {});
  const heads = columns.map(([text, isNumber]) =>
    el(isNumber ? "th.n" : "th", {scope: "col"}, text || el("span.unseen", {}, "Actions")),
  );
  const nothing = el("p.quiet", {}, empty);
  const region = kt.scroller(
    caption,
    el(
      "table.grid",
      {},
      el("caption.unseen", {}, caption),
      el("thead", {}, el("tr", {}, heads)),
      body,
    ),
  );
  region.classList.add("tall");
  return {
    element: el("div", {}, nothing, region),
    rows: (rows) => {
      nothing.hidden = rows.length > 0;
      region.hidden = rows.length === 0;
      redraw(body, rows);
    },
  };
}

/**
 * A table behind a tab, drawn anew at each change of a topic: its element, and what its title
 * counts.
 */
export function tabTable(table, topic, rowsOf, countOf) {
  let say = () => null;
  on(topic, () => {
    const session = page.active;
    if (!session) return;
    table.rows(rowsOf(session));
    say(String(countOf(session)));
  });
  return {element: table.element, count: (act) => (say = act)};
}

/** A row: cells are texts or nodes; a pair [class, text] has classes, such as ".n". */
export function row(key, cells) {
  const made = cells.map((cell, place) => {
    const [classes, content] = Array.isArray(cell) ? cell : ["", cell];
    if (place === 0) return el(`th${classes}`, {scope: "row"}, content);
    return el(`td${classes}`, {}, content);
  });
  return el("tr", {"data-row": key}, made);
}

/**
 * Buttons of a table as one stop of the Tab key: arrows move between those with `data-key`, row
 * by row and column by column (`data-column`).
 */
export function arrowKeys(element) {
  const all = () => [...element.querySelectorAll("button[data-key]")];
  const makeStop = (button) => {
    for (const other of all()) other.tabIndex = other === button ? 0 : -1;
  };
  element.addEventListener("focusin", (event) => {
    if (event.target.matches("button[data-key]")) makeStop(event.target);
  });
  element.addEventListener("keydown", (event) => {
    const from = event.target;
    if (!from.matches("button[data-key]")) return;
    const next = neighbour(all(), from, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  /** After a drawing: one button can be reached. */
  return (preferred) => {
    const buttons = all();
    const current = buttons.find((button) => button === document.activeElement);
    const wanted = current || buttons.find((button) => button.dataset.key === preferred);
    makeStop(wanted || buttons[0]);
  };
}

function neighbour(buttons, from, key) {
  const place = buttons.indexOf(from);
  if (key === "ArrowRight") return buttons[place + 1];
  if (key === "ArrowLeft") return buttons[place - 1];
  if (key === "Home") return buttons[0];
  if (key === "End") return buttons.at(-1);
  const column = from.dataset.column;
  const same = (button) => button.dataset.column === column;
  if (key === "ArrowDown") return buttons.slice(place + 1).find(same);
  if (key === "ArrowUp") return buttons.slice(0, Math.max(place, 0)).findLast(same);
  return null;
}
