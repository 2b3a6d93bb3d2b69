// Picking letters: a count, all of a page, a range with the shift key, all that match; picks outlive a swap.

import { toast } from "./toasts.js";
import { words } from "./words.js";

export const picks = () => [...document.querySelectorAll("input.pick")];
export const picked = () => picks().filter((box) => box.checked);

const form = () => document.querySelector("form.bulk");
const allMatching = () => form()?.querySelector("[data-scope-all]");
const takesAll = () => allMatching()?.checked ?? false;

let lastPicked = null;

function takeAll(yes) {
  if (!form()) return;
  if (yes) allMatching().checked = true;
  else form().querySelector("[name=scope][value=picked]").checked = true;
}

function sayLine(n) {
  const line = form().querySelector("[data-line]");
  const boxes = picks().length;
  line.hidden = n === 0 || n < boxes || Number(form().dataset.matching) <= boxes;
  line.querySelector("[data-line-page]").hidden = takesAll();
  line.querySelector("[data-line-all]").hidden = !takesAll();
}

function sayPicked() {
  const n = picked().length;
  if (n < picks().length || !n) takeAll(false); // one that is left out leaves "all" untrue
  const text = takesAll() ? form().dataset.all : n || "";
  for (const place of document.querySelectorAll("[data-picked]")) {
    if (place.textContent !== String(text)) place.textContent = text;
  }
  for (const box of document.querySelectorAll("[data-pick-all]")) {
    box.checked = n > 0 && n === picks().length;
    box.indeterminate = n > 0 && n < picks().length;
  }
  if (!form()) return;
  form().toggleAttribute("data-some", n > 0); // no class: htmx puts those of a swap back
  sayLine(n);
}

function pick(yes) {
  for (const box of picks()) box.checked = yes;
  sayPicked();
}

export const pickNone = () => pick(false);

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

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-pick-none]")) pickNone();
  const all = event.target.closest("[data-take-all]");
  if (!all && !event.target.closest("[data-take-page]")) return;
  takeAll(Boolean(all));
  sayPicked();
  form().querySelector(all ? "[data-take-page]" : "[data-take-all]").focus();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-pick-all]")) pick(event.target.checked);
});

const filterShown = () => document.getElementById("results")?.dataset.filter;

export const chosen = () => ({ ids: picked().map((box) => box.value), all: takesAll(), filter: filterShown() });

// Picks anew what was chosen, as far as it is still shown under the same filter; the rest is not picked, and said.
export function choose({ ids, all, filter }) {
  const isSame = filter === filterShown();
  const shown = picks().filter((box) => isSame && ids.includes(box.value));
  for (const box of shown) box.checked = true;
  takeAll(all && isSame && shown.length === picks().length);
  sayPicked();
  const gone = ids.length - shown.length;
  if (gone) toast(words.unpicked.replace("%s", gone), { stays: true });
}

// A swap takes no pick away from a letter that is still shown.
let kept = null;
document.addEventListener("htmx:beforeSwap", () => {
  kept = chosen();
});

function restore() {
  if (kept) choose(kept);
  kept = null;
}

addEventListener("pageshow", sayPicked);
document.addEventListener("htmx:afterSwap", restore);
sayPicked();
