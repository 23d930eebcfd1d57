"use strict";
(() => {
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
  });

  for (const select of document.querySelectorAll("figure select")) {
    const drawings = [...select.closest("figure").querySelectorAll(".drawing")];
    const show = () => drawings.forEach((drawing, place) => (drawing.hidden = place !== select.selectedIndex));
    select.addEventListener("change", show);
    show(); // A browser may have kept the choice of an earlier visit.
  }

  for (const table of document.querySelectorAll("table:has(th button)")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const isUp = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((it) => it.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
        const key = (row) => {
          const cell = row.cells[column];
          return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
        };
        const order = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if (typeof x === "number" && typeof y === "number") return x - y;
          if (typeof x === typeof y) return x.localeCompare(y, undefined, { numeric: true });
          return typeof x === "number" ? -1 : 1;
        };
        const rows = [...body.rows].sort((a, b) => (isUp ? order(a, b) : order(b, a)));
        body.append(...rows);
      });
    });
  }
})();
