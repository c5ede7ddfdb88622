// What a report's page does beyond standing there: hovering, sorting, filtering, saving its record.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${y + box.height + 24 > innerHeight ? y - box.height - 10 : y + 16}px`;
  };
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (mark) {
      tip.textContent = mark.dataset.tip;
      place(event.clientX, event.clientY);
    }
  });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const table = document.getElementById("candidates");
  const rows = table ? [...table.tBodies[0].rows] : [];

  // A mark of a chart leads to its candidate's row.
  document.addEventListener("click", (event) => {
    const mark = event.target.closest && event.target.closest("svg [data-id]");
    const row = mark && rows.find((each) => each.dataset.id === mark.dataset.id);
    if (!row) return;
    for (const other of rows) other.classList.toggle("pointed", other === row);
    row.hidden = false;
    row.scrollIntoView({ block: "center" });
  });

  const keyOf = (row, at) => {
    const cell = row.cells[at];
    const text = cell.dataset.key === undefined ? cell.textContent : cell.dataset.key;
    const number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  // Cells without a value stay last in either order.
  const compare = (one, other, sign) => {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * String(one).localeCompare(String(other));
  };
  for (const sortable of document.querySelectorAll("table.sortable")) {
    const heads = [...sortable.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const goesUp = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", goesUp ? "ascending" : "descending");
        const body = sortable.tBodies[0];
        const keyed = [...body.rows].map((row) => [keyOf(row, at), row]);
        keyed.sort((a, b) => compare(a[0], b[0], goesUp ? 1 : -1));
        body.append(...keyed.map((pair) => pair[1]));
      });
    });
  }

  const controls = document.getElementById("filter");
  if (controls && table) {
    controls.hidden = false;
    const [words, family, status] = ["words", "family", "status"].map((name) => controls.elements[name]);
    const count = controls.querySelector("output");
    const filter = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits = (!family.value || row.dataset.family === family.value)
          && (!status.value || row.dataset.status === status.value)
          && wanted.every((word) => text.includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      count.textContent = `${shown} of ${rows.length} shown`;
    };
    controls.addEventListener("input", filter);
    controls.addEventListener("submit", (event) => event.preventDefault());
    filter();
  }

  const save = document.getElementById("save");
  if (save) {
    save.hidden = false;
    save.addEventListener("click", () => {
      const text = document.getElementById("record").textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "report.json";
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details:not(.source)")) each.open = true;
  });
})();
