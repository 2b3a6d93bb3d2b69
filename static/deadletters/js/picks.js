// Picking letters: a count, all of a page, and a range with the shift key.

export const picks = () => [...document.querySelectorAll("input.pick")];
export const picked = () => picks().filter((box) => box.checked);

let lastPicked = null;

function sayPicked() {
  const n = picked().length;
  for (const place of document.querySelectorAll("[data-picked]")) place.textContent = n ? n : "";
}

export function pickNone() {
  for (const box of picked()) box.checked = false;
  for (const box of document.querySelectorAll("[data-pick-all]")) box.checked = false;
  sayPicked();
}

document.addEventListener("click", (event) => {
  const box = event.target.closest("input.pick");
  if (!box) return;
  const boxes = picks();
  if (event.shiftKey && lastPicked?.isConnected) {
    const [from, to] = [boxes.indexOf(lastPicked), boxes.indexOf(box)].sort((one, other) => one - other);
    for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
  }
  lastPicked = box;
  sayPicked();
});

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-pick-all]")) return;
  for (const box of picks()) box.checked = event.target.checked;
  sayPicked();
});

addEventListener("pageshow", sayPicked);
document.addEventListener("htmx:afterSwap", sayPicked);
