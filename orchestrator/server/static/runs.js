// Folds and unfolds trees of runs: by the button of a row, or by the arrow keys on a row.
"use strict";
(() => {
  const folded = new Set();
  const rows = (table) => [...table.querySelectorAll("tr[data-run]")];
  function apply() {
    for (const table of document.querySelectorAll("table.tree")) {
      let under = Infinity;
      for (const row of rows(table)) {
        const depth = Number(row.dataset.depth);
        if (depth <= under) under = Infinity;
        row.hidden = depth > under;
        const button = row.querySelector(".fold-run");
        if (!button) continue;
        const closed = folded.has(row.dataset.run);
        button.setAttribute("aria-expanded", String(!closed));
        row.setAttribute("aria-expanded", String(!closed));
        if (closed && depth < under) under = depth;
      }
    }
  }
  function fold(row, closed) {
    if (!row?.querySelector(".fold-run")) return false;
    if (folded.has(row.dataset.run) === closed) return false;
    if (closed) folded.add(row.dataset.run);
    else folded.delete(row.dataset.run);
    apply();
    return true;
  }
  function parent(row) {
    let before = row.previousElementSibling;
    while (before && Number(before.dataset.depth) >= Number(row.dataset.depth)) before = before.previousElementSibling;
    return before;
  }
  document.addEventListener("click", (event) => {
    const row = event.target.closest(".fold-run")?.closest("tr[data-run]");
    if (row) fold(row, !folded.has(row.dataset.run));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const row = event.target.closest?.("tr[data-run]");
    if (!row) return;
    event.preventDefault();
    if (!fold(row, event.key === "ArrowLeft") && event.key === "ArrowLeft") {
      parent(row)?.querySelector("a.title")?.focus();
    }
  });
  document.addEventListener("synapse:fresh", apply);
})();
