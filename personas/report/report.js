(() => {
  for (const tools of document.querySelectorAll(".tools, .keys-hint")) tools.hidden = false;
  document.documentElement.classList.add("js");
  if (matchMedia("(max-width: 40rem)").matches) {
    for (const rest of document.querySelectorAll(".rest")) rest.open = false;
  }

  const table = document.getElementById("heat");
  if (!table) return;
  const passages = [...table.querySelectorAll(".passage")];
  const linkOf = (passage) => passage.querySelector(".label");
  const show = (passage, open) => {
    passage.classList.toggle("open", open);
    linkOf(passage).setAttribute("aria-expanded", open);
  };
  for (const passage of passages) show(passage, false);
  for (const button of document.querySelectorAll("button[data-open]")) {
    button.addEventListener("click", () => {
      for (const passage of passages) show(passage, button.dataset.open === "yes");
    });
  }
  table.addEventListener("click", (event) => {
    const row = event.target.closest(".passage > tr:first-child");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const passage = row.parentElement;
    const onLink = event.target.closest("a");
    /* A click that ends a selection opens nothing. */
    if (!onLink && !getSelection().isCollapsed) return;
    event.preventDefault();
    show(passage, !passage.classList.contains("open"));
    linkOf(passage).focus({ preventScroll: true });
  });
  const openTarget = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !passages.includes(target)) return;
    if (target.hidden) {
      /* A link to a passage that the filter hides ends the filter. */
      search.value = "";
      filter();
    }
    if (!target.checkVisibility()) unfold();
    show(target, true);
    target.scrollIntoView();
  };

  const line = table.querySelector(".line");
  const sortable = [...table.tHead.rows[0].cells];
  /* The line below the last rank asked for has a meaning only in the order of the ranks. */
  const placeLine = () => {
    if (!line) return;
    line.hidden = search.value.trim() !== "" || sortable[0].ariaSort !== "ascending";
    document.getElementById(`passage-${table.dataset.last}`).after(line);
  };
  const end = document.createComment("");
  passages.at(-1).after(end);
  makeSortable(sortable, [
    { body: { append: (...all) => end.before(...all) }, rows: passages },
  ]);
  const order = document.getElementById("order");
  for (const head of sortable) {
    const name = head === sortable[0] ? "Rank" : head.textContent.replace(/relevance$/, "");
    order.append(new Option(`Sort: ${name}`));
  }
  order.addEventListener("change", () => sortable[order.selectedIndex].querySelector("button").click());
  table.tHead.addEventListener("click", () => {
    placeLine();
    order.selectedIndex = sortable.findIndex((head) => head.ariaSort !== "none");
  });
  const unfold = () => {
    table.classList.remove("few");
    document.getElementById("all")?.parentElement.remove();
  };
  document.getElementById("all")?.addEventListener("click", unfold);

  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const plain = (text) => text.normalize("NFKC").toLowerCase();
  let places = null;
  const searched = () =>
    passages.map((passage) => {
      const said = [...passage.querySelectorAll(".label, .id, .inside h3, .text")];
      return { passage, text: plain(said.map((each) => each.textContent).join("\n")) };
    });
  /* Columns keep their widths, whichever rows are left. */
  const columns = document.createElement("colgroup");
  const holdWidths = (hold) => {
    if (hold === columns.isConnected) return;
    columns.replaceChildren(
      ...sortable.map((head) => {
        const column = document.createElement("col");
        column.width = head.getBoundingClientRect().width;
        return column;
      }),
    );
    if (hold) table.prepend(columns);
    else columns.remove();
    table.classList.toggle("held", hold);
  };
  const filter = () => {
    const wanted = plain(search.value.trim());
    places ??= searched();
    if (wanted) unfold();
    holdWidths(wanted !== "");
    let count = 0;
    for (const { passage, text } of places) {
      const hit = text.includes(wanted);
      passage.hidden = !hit;
      count += hit;
    }
    /* The means are those of all passages. */
    if (table.tFoot) table.tFoot.hidden = wanted !== "";
    placeLine();
    found.textContent = wanted ? `${count} of ${places.length} passages` : "";
  };
  search.addEventListener("input", filter);
  addEventListener("resize", () => {
    holdWidths(false);
    if (search.value.trim()) holdWidths(true);
  });
  addEventListener("hashchange", openTarget);
  openTarget();

  const stretch = document.getElementById("stretch");
  if (stretch) {
    const ends = [...document.querySelectorAll(".ramp .low, .ramp .high")];
    const wide = ends.map((each) => each.textContent);
    stretch.addEventListener("change", () => {
      const { low, high, bottom, top } = table.dataset;
      const [from, to] = (stretch.checked ? [low, high] : [bottom, top]).map(Number);
      for (const cell of table.querySelectorAll(".passage > tr:first-child > .cell[data-v]")) {
        const level = Math.round((10 * (cell.dataset.v - from)) / (to - from));
        cell.className = `cell h${Math.min(10, Math.max(0, level))}`;
      }
      ends.forEach((each, place) => {
        each.textContent = stretch.checked ? Number([low, high][place]).toPrecision(3) : wide[place];
      });
    });
  }

  const move = (by) => {
    const shown = [...table.querySelectorAll(".passage:not([hidden])")];
    const at = shown.indexOf(document.activeElement.closest(".passage"));
    const next = shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by];
    if (!next) return;
    if (!next.checkVisibility()) unfold();
    linkOf(next).focus({ preventScroll: true });
    next.rows[0].scrollIntoView({ block: "nearest" });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    if (event.key !== "Escape") return;
    const at = document.activeElement.closest(".passage.open");
    for (const passage of at ? [at] : passages) show(passage, false);
    if (at) linkOf(at).focus();
  });
})();
