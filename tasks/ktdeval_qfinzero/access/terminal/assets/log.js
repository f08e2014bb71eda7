// Lines of the broker's event log, as they stand in it: whole numbers with their units.

import {when} from "./format.js";
import {liveTable, row, tabTable} from "./parts.js";

const {el} = kt;
const MOST_SHOWN = 200;
const NANOSECONDS = 1e6; // of a millisecond
const LONGEST = 160;

export function logTable() {
  const table = liveTable(
    "Event log",
    [["Number", true], ["Time"], ["Kind"], ["Event"], ["Content"]],
    "The log is empty.",
  );
  const rowsOf = ({log}) => log.slice(-MOST_SHOWN).reverse().map(lineOf);
  const countOf = ({log}) => (log.length ? log.at(-1).seq + 1 : 0);
  return tabTable(table, "log", rowsOf, countOf);
}

function lineOf(entry) {
  const content = JSON.stringify(entry.data);
  const shown = content.length > LONGEST ? `${content.slice(0, LONGEST)} …` : content;
  return row(String(entry.seq), [
    [".n", String(entry.seq)],
    when(entry.ts_ns / NANOSECONDS),
    entry.kind,
    entry.type,
    el("code", {title: content}, shown),
  ]);
}
