// Tables.
//
// kt.table.plain({caption, head: ["a", {text, n: true, title}], rows: [[cell, …], …], showCaption,
// chosen})
//     a table in a region. A row is a list of cells or a <tr>; a cell is a text, a node or a <td>;
//     columns with n: true are right-aligned; the first cell of a row heads it; `chosen` is the
//     place of a row
// kt.table.of(caption, rows, [[head, (row, place) => cell], …], {showCaption, chosen})
//     the same by its columns; one that is null or false is left out
// kt.table.right(text, title)
//     head of a column that stands right
// kt.table.sortable({caption, onSort(key)})
//     {element, head(columns, sort), rows([<tr>, …])}. A column is {key, title, unit, hint, n,
//     className, sorts}; sort is {key, descending}. The caller puts the rows in order.
// kt.table.compare(left, right, descending)
//     for sort(): what is not known comes last either way
// kt.table.csv([[cell, …], …])
//     text of a CSV file; a text that a spreadsheet would take for a formula gets an apostrophe

kt.table = (() => {
  const {el, replace, scroller} = kt;

  const DAY = /^\d{4}-\d\d-\d\d$/;

  function cells(row, head) {
    return row.map((cell, place) => {
      if (cell instanceof HTMLTableCellElement) return cell;
      const kind = head[place].n ? "n" : DAY.test(cell) ? "info" : null;
      if (place === 0) return el("th", {scope: "row", class: kind}, cell);
      return el("td", {class: kind}, cell);
    });
  }

  function plain({caption, head, rows, showCaption = false, chosen = -1}) {
    const columns = head.map((one) => (typeof one === "string" ? {text: one} : one));
    const heads = columns.map(({text, n, title}) =>
      el("th", {scope: "col", title, class: n ? "n" : null}, text),
    );
    const region = scroller(
      `Table: ${caption}`,
      el(
        "table.grid",
        el("caption", {class: showCaption ? null : "unseen"}, caption),
        el("thead", el("tr", heads)),
        el(
          "tbody",
          rows.map((row, place) => {
            if (row instanceof Node) return row;
            return el("tr", {class: place === chosen ? "chosen" : null}, cells(row, columns));
          }),
        ),
      ),
    );
    region.classList.add("fit");
    return region;
  }

  const right = (text, title) => ({text, title, n: true});

  function of(caption, rows, columns, options = {}) {
    const shown = columns.filter(Boolean);
    return plain({
      caption,
      head: shown.map(([head]) => head),
      rows: rows.map((row, place) => shown.map(([, cell]) => cell(row, place))),
      ...options,
    });
  }

  function sortable({caption, onSort}) {
    const headRow = el("tr");
    const body = el("tbody");
    const element = scroller(
      `Table: ${caption}`,
      el("table.grid", el("caption.unseen", caption), el("thead", headRow), body),
    );
    let keys = "";
    let heads = [];

    function label(column) {
      const text = [column.title, column.unit ? el("span.unit", ` ${column.unit}`) : null];
      if (!column.sorts) return column.hidden ? el("span.unseen", text) : text;
      return kt.button(text, () => onSort(column.key), {
        title: column.hint,
        "data-key": column.key,
      });
    }

    return {
      element,
      head(columns, sort) {
        const now = columns.map(({key, unit}) => `${key} ${unit || ""}`).join("\n");
        if (now !== keys) {
          keys = now;
          heads = columns.map((column) =>
            el(
              "th",
              {
                scope: "col",
                class: [column.n ? "n" : "", column.className || ""].join(" ").trim() || null,
              },
              label(column),
            ),
          );
          replace(headRow, heads);
        }
        columns.forEach((column, place) => {
          const word =
            column.key === sort.key ? (sort.descending ? "descending" : "ascending") : "none";
          if (column.sorts) heads[place].setAttribute("aria-sort", word);
        });
      },
      rows: (rows) => replace(body, rows),
    };
  }

  let words = null;
  const unknown = (value) =>
    value === null || value === undefined || value === "" || Number.isNaN(value);

  function compare(left, right, descending) {
    if (unknown(left) || unknown(right)) return unknown(left) - unknown(right);
    // slow to make: once, and when needed
    if (typeof left === "string") words ||= new Intl.Collator("en", {numeric: true});
    const order = typeof left === "string" ? words.compare(left, right) : left - right;
    return descending ? -order : order;
  }

  function csvCell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  const csv = (rows) => `${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;

  return {plain, of, right, sortable, compare, csv};
})();
