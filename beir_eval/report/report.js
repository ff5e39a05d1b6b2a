for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.querySelectorAll("th[data-column]")];
  const groups = [...table.tBodies].map((body) => ({
    body,
    rows: [...body.rows].filter((row) => !row.classList.contains("group")),
  }));
  makeSortable(heads, groups);
}
