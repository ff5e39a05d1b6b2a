/* The table of queries: search, restrict, sort, and show 50 at a time. What is on show is in
   the page's address, so that links and the browser's "back" keep it. */
(() => {
  const SIZE = 50;
  const PAUSE = 250;
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const fold = (text) => text.normalize("NFKC").toLowerCase();
  const count = (number) => number.toLocaleString("en");
  const element = (id) => document.getElementById(id);
  const asNumber = (text) => {
    const value = parseFloat(text.replaceAll(",", "").replace("\u2212", "-"));
    return Number.isNaN(value) ? null : value;
  };
  /* A cell's pieces, such as query and id, are words of their own. */
  const pieces = (cell) => [...cell.childNodes].map((node) => node.textContent).join("\n");

  const makeButton = (words, act) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...words);
    button.addEventListener("click", act);
    return button;
  };

  const manage = (table, changed) => {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const [searchBox, showBox, orderBox] = ["find", "show", "order"].map((name) =>
      element(`${table.id}-${name}`),
    );
    const status = element(`${table.id}-found`);
    const region = table.closest(".scroll");
    const everywhere = fold(table.dataset.everywhere ?? "");
    const searched = heads.filter((head) => "words" in head.dataset);
    const columns = new Map(heads.map((head) => [head.dataset.key, head]));
    const listed = [...body.rows].map((row, place) => ({
      row,
      place,
      failed: row.className === "f",
      text: null,
    }));
    const state = { find: "", show: "", sort: "", page: 1 };
    let sorted = { by: "", entries: listed };
    let shown = listed;
    /* On a phone a row is a card, and each cell names its column. */
    const names = heads.map((head) => head.textContent.replaceAll("\u00ad", "").trim());
    const labelled = new WeakSet();
    const label = (row) => {
      if (labelled.has(row)) return row;
      labelled.add(row);
      if (row.className !== "f") {
        for (const cell of row.cells) cell.dataset.label = names[cell.cellIndex];
      }
      return row;
    };
    table.classList.add("labelled");

    const textOf = (entry) => {
      if (entry.text === null) {
        const cells = searched.map((head) => entry.row.cells[head.cellIndex]).filter(Boolean);
        entry.text = fold(cells.map(pieces).join("\n"));
        if (!entry.failed) entry.text += "\n" + everywhere;
      }
      return entry.text;
    };
    const valueOf = (entry, head) => {
      const cell = entry.failed && head.cellIndex > 1 ? null : entry.row.cells[head.cellIndex];
      const text = cell ? pieces(cell).trim() : "";
      if (!text) return null;
      return "words" in head.dataset ? text : asNumber(text);
    };
    const has = (entry) => {
      if (state.show === "failed") return entry.failed;
      const head = columns.get(state.show);
      const cell = head && !entry.failed && entry.row.cells[head.cellIndex];
      return Boolean(cell) && !["", "0"].includes(cell.textContent);
    };
    const inOrder = () => {
      const key = state.sort.replace(/^-/, "");
      const head = columns.get(key);
      if (!head) return listed;
      const sign = key === state.sort ? 1 : -1;
      const values = listed.map((entry) => valueOf(entry, head));
      const compare = "words" in head.dataset ? collator.compare : (a, b) => a - b;
      return [...listed].sort((a, b) => {
        const [first, second] = [values[a.place], values[b.place]];
        if (first === null || second === null) {
          return (first === null) - (second === null) || a.place - b.place;
        }
        return sign * compare(first, second) || a.place - b.place;
      });
    };
    const pages = () => Math.max(1, Math.ceil(shown.length / SIZE));

    const pager = document.querySelector(`.pager[data-for="${table.id}"]`);
    const goTo = (page) => {
      if (page === state.page || page < 1 || page > pages()) return;
      state.page = page;
      changed();
      if (region.getBoundingClientRect().top < 0) region.scrollIntoView({ block: "start" });
    };
    const buttons = [
      ["First", () => 1],
      ["Previous", () => state.page - 1],
      ["Next", () => state.page + 1],
      ["Last", () => pages()],
    ].map(([words, page]) => ({ button: makeButton([words], () => goTo(page())), page }));
    const where = document.createElement("span");
    const [first, previous, next, last] = buttons.map(({ button }) => button);
    pager.append(first, previous, where, next, last);

    const drawHeads = () => {
      const key = state.sort.replace(/^-/, "") || "number";
      for (const head of heads) {
        const direction = state.sort.startsWith("-") ? "descending" : "ascending";
        head.setAttribute("aria-sort", head.dataset.key === key ? direction : "none");
      }
    };
    const drawPager = () => {
      pager.hidden = pages() === 1;
      where.textContent = `Page ${count(state.page)} of ${count(pages())}`;
      for (const { button, page } of buttons) {
        const target = page();
        const idle = target === state.page || target < 1 || target > pages();
        button.setAttribute("aria-disabled", String(idle));
      }
    };
    const drawStatus = () => {
      const all = `${count(listed.length)} ${listed.length === 1 ? "query" : "queries"}`;
      if (!shown.length) {
        status.textContent = `None of ${all} is like that.`;
        return;
      }
      const from = (state.page - 1) * SIZE;
      const to = Math.min(from + SIZE, shown.length);
      const found = shown.length === listed.length ? all : `${count(shown.length)} of ${all}`;
      status.textContent =
        pages() === 1 ? found : `${found}, here ${count(from + 1)} to ${count(to)}`;
    };
    const draw = () => {
      if (sorted.by !== state.sort) sorted = { by: state.sort, entries: inOrder() };
      const words = fold(state.find).split(/\s+/).filter(Boolean);
      shown = sorted.entries;
      if (state.show) shown = shown.filter(has);
      if (words.length) {
        shown = shown.filter((entry) => words.every((word) => textOf(entry).includes(word)));
      }
      state.page = Math.min(Math.max(1, state.page), pages());
      const from = (state.page - 1) * SIZE;
      body.replaceChildren(...shown.slice(from, from + SIZE).map(({ row }) => label(row)));
      if (searchBox.value !== state.find) searchBox.value = state.find;
      if (showBox) showBox.value = state.show;
      if (orderBox) {
        const offered = [...orderBox.options].some(({ value }) => value === state.sort);
        orderBox.value = offered ? state.sort : "?";
      }
      drawHeads();
      drawPager();
      drawStatus();
    };
    const set = (changes, typing = false) => {
      Object.assign(state, { page: 1 }, changes);
      changed(typing);
    };

    for (const head of heads) {
      const { key, first: initially } = head.dataset;
      const button = makeButton(head.childNodes, () => {
        const before = head.getAttribute("aria-sort");
        const direction =
          before === "none" ? initially : before === "ascending" ? "descending" : "ascending";
        const sort = (direction === "descending" ? "-" : "") + key;
        set({ sort: sort === "number" ? "" : sort });
      });
      head.append(button);
    }
    searchBox.addEventListener("input", () => set({ find: searchBox.value }, true));
    showBox?.addEventListener("change", () => set({ show: showBox.value }));
    orderBox?.addEventListener("change", () => set({ sort: orderBox.value }));
    addEventListener("beforeprint", () => body.replaceChildren(...shown.map(({ row }) => row)));
    addEventListener("afterprint", draw);
    document.querySelector(`.finder[data-for="${table.id}"]`).hidden = false;

    return {
      draw,
      read(address) {
        const text = (name) => address.get(name) ?? "";
        const sort = text("sort");
        Object.assign(state, {
          find: text("find"),
          show: showBox && [...showBox.options].some(({ value }) => value === text("show"))
            ? text("show")
            : "",
          sort: columns.has(sort.replace(/^-/, "")) ? sort : "",
          page: Math.floor(Number(text("page"))) || 1,
        });
      },
      write(address) {
        for (const name of ["find", "show", "sort"]) {
          if (state[name]) address.set(name, state[name]);
        }
        if (state.page > 1) address.set("page", String(state.page));
      },
    };
  };

  let typing = false;
  let waiting = 0;
  const plain = location.href.split("#")[0];
  const hash = () => {
    const address = new URLSearchParams();
    managed.write(address);
    const text = address.toString();
    return text && "#" + text;
  };
  /* One entry of the history for each search, however many letters it has. */
  const keep = (asTyped) => {
    const target = plain + hash();
    if (target !== location.href) {
      if (asTyped && typing) history.replaceState(null, "", target);
      else history.pushState(null, "", target);
    }
    typing = asTyped;
  };
  const table = document.querySelector("table.paged");
  if (!table) return;
  const managed = manage(table, (asTyped = false) => {
    managed.draw();
    clearTimeout(waiting);
    if (asTyped) waiting = setTimeout(keep, PAUSE, true);
    else keep(false);
  });
  const follow = () => {
    clearTimeout(waiting);
    typing = false;
    const text = location.hash.slice(1);
    const address = new URLSearchParams(text.includes("=") ? text : "");
    managed.read(address);
    managed.draw();
    if (text.includes("=")) table.closest(".scroll").scrollIntoView();
  };
  for (const links of document.querySelectorAll(".orders")) links.hidden = false;
  addEventListener("popstate", follow);
  follow();
})();
