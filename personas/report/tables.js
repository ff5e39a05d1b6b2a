"use strict";
/* What the scripts of all report pages share. */

const revealTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  const fold = target && target.closest("details");
  if (fold) fold.open = true;
};
addEventListener("hashchange", revealTarget);
revealTarget();

/* Lets the rows of each body be sorted by the buttons that the headings become. */
const makeSortable = (heads, groups) => {
  const columnOf = (head) => Number(head.dataset.column ?? head.cellIndex);
  const valueAt = (row, column) => {
    /* A group of rows is sorted by its first one. */
    const text = (row.cells ?? row.rows[0].cells)[column].dataset.v;
    return text ? Number(text) : null;
  };
  const sortBy = (head) => {
    const before = head.getAttribute("aria-sort");
    const direction =
      before === "none" ? head.dataset.first : before === "ascending" ? "descending" : "ascending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const column = columnOf(head);
    for (const { body, rows } of groups) {
      const order = rows.map((row, place) => ({ row, place, value: valueAt(row, column) }));
      order.sort((a, b) => {
        if (a.value === null || b.value === null) {
          return (a.value === null) - (b.value === null) || a.place - b.place;
        }
        return sign * (a.value - b.value) || a.place - b.place;
      });
      body.append(...order.map((entry) => entry.row));
    }
  };
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", columnOf(head) === 0 ? "ascending" : "none");
    button.addEventListener("click", () => sortBy(head));
  }
};
