// JSON as people read it. The parser keeps what `JSON.parse` would lose: how numbers were written,
// the order of keys, and keys that stand there twice. A text that is no JSON is shown as it is.

const DEEPEST = 60;

/** A tree of {kind: object|array|string|plain}, or null where the text is no JSON. */
function parseJson(text) {
  let at = 0;
  const space = /[ \t\n\r]*/y;
  const token = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
  // Unrolled, so that it takes linear time in any text.
  const quoted =
    /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
  const take = (pattern) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) throw new SyntaxError("not JSON");
    at = pattern.lastIndex;
    return match[0];
  };
  const eat = (letter) => {
    take(space);
    if (text[at] !== letter) return false;
    at += 1;
    return true;
  };
  const need = (letter) => {
    if (!eat(letter)) throw new SyntaxError("not JSON");
  };
  const members = (end, member) => {
    const found = [];
    if (eat(end)) return found;
    do found.push(member());
    while (eat(","));
    need(end);
    return found;
  };
  const value = (depth) => {
    if (depth > DEEPEST) throw new SyntaxError("too deep");
    take(space);
    if (eat("{")) {
      return {
        kind: "object",
        entries: members("}", () => {
          take(space);
          const key = JSON.parse(take(quoted));
          need(":");
          return [key, value(depth + 1)];
        }),
      };
    }
    if (eat("[")) return {kind: "array", items: members("]", () => value(depth + 1))};
    if (text[at] === '"') return {kind: "string", value: JSON.parse(take(quoted))};
    return {kind: "plain", value: take(token)};
  };
  try {
    const tree = value(0);
    take(space);
    return at === text.length ? tree : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function member(tree, key) {
  const found =
    tree && tree.kind === "object" ? tree.entries.find(([name]) => name === key) : undefined;
  return found && found[1];
}

const isScalar = (tree) => tree.kind === "string" || tree.kind === "plain";
const isNumber = (tree) => tree.kind === "plain" && /^-?\d/.test(tree.value);

/**
 * `{"columns": [...], "rows": [[...]]}`, as tools answer, or a list of objects with the same plain
 * fields, as orders are.
 */
function asTable(tree) {
  const columns = member(tree, "columns");
  const rows = member(tree, "rows");
  if (
    columns &&
    rows &&
    tree.entries.length === 2 &&
    columns.kind === "array" &&
    rows.kind === "array"
  ) {
    const width = columns.items.length;
    const fits = (row) =>
      row.kind === "array" && row.items.length === width && row.items.every(isScalar);
    if (width && columns.items.every((item) => item.kind === "string") && rows.items.every(fits)) {
      return {
        heads: columns.items.map((item) => item.value),
        rows: rows.items.map((row) => row.items),
      };
    }
  }
  if (tree.kind !== "array" || tree.items.length === 0) return null;
  const plain = (item) =>
    item.kind === "object" &&
    item.entries.length > 0 &&
    item.entries.every(([, value]) => isScalar(value));
  if (!tree.items.every(plain)) return null;
  const heads = [...new Set(tree.items.flatMap((item) => item.entries.map(([key]) => key)))];
  const once = (item) => new Set(item.entries.map(([key]) => key)).size === item.entries.length;
  if (heads.length > 14 || !tree.items.every(once)) return null;
  return {heads, rows: tree.items.map((item) => heads.map((head) => member(item, head)))};
}

function showScalar(tree, names) {
  if (!tree) return "";
  if (tree.kind === "plain") return el("span.plain", {}, tree.value);
  return el(tree.value.length > 48 ? "span.said.long" : "span.said", {}, names.mark(tree.value));
}

/** The tree as elements. */
function showJson(tree, names) {
  if (isScalar(tree)) return showScalar(tree, names);
  const table = asTable(tree);
  if (table) return showTable(table, names);
  if (tree.kind === "array") {
    if (tree.items.length === 0) return el("span.plain", {}, "[ ]");
    if (tree.items.every(isScalar)) {
      return el(
        "span.run",
        {},
        tree.items.map((item, place) => [place ? ", " : "", showScalar(item, names)]).flat(),
      );
    }
    return el(
      "ol.items",
      {},
      tree.items.map((item) => el("li", {}, showJson(item, names))),
    );
  }
  if (tree.entries.length === 0) return el("span.plain", {}, "{ }");
  return el(
    "dl.fields",
    {},
    tree.entries.map(([key, value]) => {
      const wide = !isScalar(value) && !(value.kind === "array" && value.items.every(isScalar));
      return el(
        wide ? "div.wide" : "div",
        {},
        el("dt", {}, names.mark(key)),
        el("dd", {}, showJson(value, names)),
      );
    }),
  );
}

function showTable(table, names) {
  if (table.rows.length === 0) return el("span.plain", {}, `no rows (${table.heads.join(", ")})`);
  const numeric = table.heads.map(
    (_, place) =>
      table.rows.every((row) => !row[place] || row[place].kind === "plain") &&
      table.rows.some((row) => row[place] && isNumber(row[place])),
  );
  const cell = (place) => (numeric[place] ? ".n" : "");
  const heads = table.heads.map((head, place) => el(`th${cell(place)}`, {scope: "col"}, head));
  const rows = table.rows.map((row) =>
    el(
      "tr",
      {},
      row.map((item, place) => el(`td${cell(place)}`, {}, showScalar(item, names))),
    ),
  );
  return scroller(
    `Table of ${table.heads.join(", ")}`,
    el("table.grid", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)),
  );
}
