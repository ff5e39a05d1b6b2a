for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.querySelectorAll("th[data-column]")];
  const groups = [...table.tBodies].map((body) => ({
    body,
    rows: [...body.rows].filter((row) => !row.classList.contains("group")),
  }));
  /* On a phone a row is a card, and each cell names its column. */
  if (table.classList.contains("details")) {
    const names = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
    for (const { rows } of groups) {
      for (const row of rows) {
        for (const cell of row.cells) cell.dataset.label = names[cell.cellIndex];
      }
    }
    table.classList.add("cards");
  }
  makeSortable(heads, groups);
}
