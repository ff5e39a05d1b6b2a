(() => {
  /* A link to a passage that stands on another part of this ranking. */
  const followRank = () => {
    const rank = Number((location.hash.match(/^#passage-(\d+)$/) ?? [])[1]);
    if (!rank || document.getElementById(location.hash.slice(1))) return;
    for (const link of document.querySelectorAll(".parts a")) {
      if (rank >= link.dataset.first && rank <= link.dataset.last) {
        location.replace(link.href + location.hash);
      }
    }
  };
  addEventListener("hashchange", followRank);
  followRank();

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
  const plain = (text) => text.normalize("NFKC").toLowerCase();
  const places = rows.map((row) => {
    const fold = document.getElementById("details-" + row.dataset.place);
    const said = [
      ...row.querySelectorAll(".what > *"),
      ...fold.querySelectorAll(".inside > h3, .text"),
    ];
    return { row, fold, text: plain(said.map((each) => each.textContent).join("\n")) };
  });
  const filter = () => {
    const wanted = plain(search.value.trim());
    let count = 0;
    for (const { row, fold, text } of places) {
      const hit = text.includes(wanted);
      row.hidden = fold.hidden = !hit;
      count += hit;
    }
    found.textContent = wanted ? `${count} of ${places.length} passages` : "";
  };
  search.addEventListener("input", filter);
  /* A link to a passage that the filter hides ends the filter. */
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !target.closest("details.passage[hidden]")) return;
    search.value = "";
    filter();
    target.scrollIntoView();
  });
})();
