"use strict";
(() => {
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    const fold = target && target.closest("details");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();

  const folds = [...document.querySelectorAll("details.passage")];
  for (const button of document.querySelectorAll("button[data-open]")) {
    button.addEventListener("click", () => {
      for (const fold of folds) fold.open = button.dataset.open === "yes";
    });
  }
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;

  const table = document.getElementById("heat");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  const valueAt = (row, column) => {
    const text = row.cells[column].dataset.v;
    return text ? Number(text) : null;
  };
  const sortBy = (column) => {
    const head = heads[column];
    const before = head.getAttribute("aria-sort");
    const direction =
      before === "none" ? head.dataset.first : before === "ascending" ? "descending" : "ascending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const order = rows.map((row, place) => ({ row, place, value: valueAt(row, column) }));
    order.sort((a, b) => {
      if (a.value === null || b.value === null) {
        return (a.value === null) - (b.value === null) || a.place - b.place;
      }
      return sign * (a.value - b.value) || a.place - b.place;
    });
    body.append(...order.map((entry) => entry.row));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", column === 0 ? "ascending" : "none");
    button.addEventListener("click", () => sortBy(column));
  });

  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const places = rows.map((row) => {
    const fold = document.getElementById("details-" + row.dataset.place);
    return { row, fold, text: (row.cells[0].textContent + fold.textContent).toLowerCase() };
  });
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    let count = 0;
    for (const { row, fold, text } of places) {
      const hit = text.includes(wanted);
      row.hidden = fold.hidden = !hit;
      count += hit;
    }
    found.textContent = wanted ? `${count} of ${places.length} passages` : "";
  });
})();
