// Rows of lists: the current one, and a click anywhere on a row that opens it; menus close when one looks elsewhere.

export const rows = () => [...document.querySelectorAll("[data-row]")];
export const currentRow = () => document.querySelector("[data-row].current");

export function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(currentRow());
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  all[at]?.classList.remove("current");
  next.classList.add("current");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

// Unless something in the row was meant, or text is being selected.
document.addEventListener("click", (event) => {
  const row = event.target.closest("[data-row]");
  if (!row || event.target.closest("a, button, input, select, textarea, label, summary, details, form")) return;
  if (getSelection().isCollapsed) row.querySelector("a").click();
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// A row that shows its new state is still the current one.
let wasCurrent = false;
document.addEventListener("htmx:beforeSwap", (event) => {
  wasCurrent = event.detail.target?.matches("[data-row].current") ?? false;
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (wasCurrent && event.detail.elt.matches("[data-row]")) event.detail.elt.classList.add("current");
});
