(() => {
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
  makeSortable([...table.tHead.rows[0].cells], [{ body, rows }]);

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
