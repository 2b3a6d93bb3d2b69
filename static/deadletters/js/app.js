// What script adds to pages that work without it: colours, copying, keys, drafts, honest polling.

const THEMES = ["system", "light", "dark"];
const root = document.documentElement;

function sayTheme(button) {
  button.setAttribute("aria-label", `${button.getAttribute("aria-label").split(":")[0]}: ${root.dataset.theme}`);
}

function switchTheme(button) {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
  root.dataset.theme = next;
  sayTheme(button);
  try {
    localStorage.setItem("deadletters-theme", next);
  } catch {
    // Kept for this page only.
  }
}

function toast(text) {
  const element = document.createElement("p");
  element.className = "toast";
  element.textContent = text;
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), 8000);
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    // Without HTTPS there is no clipboard: select the text for the person to copy.
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return;
  }
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1500);
}

function localTimes(within) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of within.querySelectorAll("time.clock")) {
    time.textContent = format.format(new Date(time.dateTime));
  }
}

// --- drafts: what was typed survives a sign-in in between

function restoreDrafts(within) {
  for (const area of within.querySelectorAll("[data-draft]")) {
    const kept = sessionStorage.getItem(area.dataset.draft);
    if (kept && !area.value) area.value = kept;
  }
}

document.addEventListener("input", (event) => {
  const key = event.target.dataset?.draft;
  if (key) sessionStorage.setItem(key, event.target.value);
});

// --- clicks

document.addEventListener("click", (event) => {
  const themeSwitch = event.target.closest("[data-theme-switch]");
  if (themeSwitch) switchTheme(themeSwitch);
  const copyButton = event.target.closest("[data-copy]");
  if (copyButton) copy(copyButton);
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-sign-out]")) sessionStorage.clear();
});

// --- picking letters for a run: a count, all of a page, and a range with the shift key

const picks = () => [...document.querySelectorAll("input.pick")];
let lastPicked = null;

function sayPicked() {
  const n = picks().filter((box) => box.checked).length;
  for (const place of document.querySelectorAll("[data-picked]")) place.textContent = n ? n : "";
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

// What a button says of a field follows the field; a form that begins something is sent once.
document.addEventListener("input", (event) => {
  for (const place of document.querySelectorAll(`[data-mirror="${event.target.name}"]`)) {
    const typed = event.target.value.trim() || "0";
    place.textContent = Number(typed) > Number(place.dataset.most ?? Infinity) ? place.dataset.most : typed;
  }
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});

addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("[data-once]")) delete form.dataset.sent;
  sayPicked();
});

// A click anywhere on a row opens it, unless something in it was meant or text is being selected.
document.addEventListener("click", (event) => {
  const row = event.target.closest("[data-row]");
  if (row && !event.target.closest("a, button, input") && getSelection().isCollapsed) row.querySelector("a").click();
});

// --- keys

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("current"));
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  rows[at]?.classList.remove("current");
  next.classList.add("current");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => document.querySelector("[data-search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  x: () => document.querySelector("[data-row].current input.pick")?.click(),
  r: () => document.querySelector("[data-recover]")?.focus(),
  n: () => document.getElementById("note-text")?.focus(),
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// --- htmx: polls rest in a hidden tab and say since when they are stale; failures are told, nothing is lost

// A list that renews itself rests while somebody is at one of its rows, has opened something or marks text in it.
const isUsed = (element) =>
  element.dataset.poll === "rest" &&
  (element.contains(document.activeElement) || element.querySelector(".current, details[open]") !== null ||
    (!getSelection().isCollapsed && element.contains(getSelection().anchorNode)));

const isPoll = (element) => element?.hasAttribute?.("data-poll");

document.addEventListener("htmx:beforeRequest", (event) => {
  if (isPoll(event.detail.elt) && (document.hidden || isUsed(event.detail.elt))) event.preventDefault();
});

function markStale(element) {
  if (element.querySelector(".stale")) return;
  const note = document.createElement("span");
  note.className = "stale";
  note.textContent = `${words.stale} ${new Date().toLocaleTimeString()}`;
  element.append(note);
}

function told(event, text) {
  if (isPoll(event.detail.elt)) markStale(event.detail.elt);
  else toast(text);
}

const words = document.getElementById("toasts").dataset;
document.addEventListener("htmx:sendError", (event) => told(event, words.offline));
document.addEventListener("htmx:timeout", (event) => told(event, words.offline));
document.addEventListener("htmx:responseError", (event) => {
  const { status } = event.detail.xhr;
  if ([400, 409, 422].includes(status)) return;
  told(event, status === 403 ? words.forbidden : words.failed);
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (!event.detail.successful) return;
  event.detail.elt.querySelector?.(".stale")?.remove();
  const draft = event.detail.elt.querySelector?.("[data-draft]");
  if (draft) sessionStorage.removeItem(draft.dataset.draft);
});
document.addEventListener("htmx:afterSwap", (event) => {
  localTimes(document);
  restoreDrafts(event.detail.target ?? document);
});

document.querySelectorAll("[data-theme-switch]").forEach(sayTheme);
localTimes(document);
restoreDrafts(document);
