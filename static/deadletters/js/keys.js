// Keys. A key goes to a control of the page, and Enter does it; in a list it goes to the current row's. None acts while
// somebody types. The help lists what works on the page as it is.

import { picked, pickNone } from "./picks.js";
import { isPoll } from "./polls.js";
import { currentRow, move, rows } from "./rows.js";

const help = document.getElementById("keys");
const TYPING = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const CONTROLS = {
  a: "[data-key~=a], #triage [name=owner]",
  r: "[data-key~=r], [data-recover]",
  n: "[data-key~=n], #note-text",
  h: "[data-key~=h], [name=decision][value=hold], [name=decision][value=release], #triage [name=operator_disposition]",
};

// The same in a row of a list.
const IN_ROW = {
  a: "[data-key~=a]",
  r: "[data-key~=r], [name=verb][value=recover], [data-recover]",
  n: "[data-key~=n]",
  h: "[data-key~=h], [name=verb][value=hold], [name=verb][value=release]",
};

const isFolded = (element) => element.closest("details:not([open])") !== null;
const isThere = (element) => !element.disabled && !element.closest("dialog") && (isFolded(element) || element.checkVisibility());

function control(key) {
  const all = [...document.querySelectorAll(CONTROLS[key])].filter(isThere);
  const forPicked = (element) => picked().length > 0 && element.closest("#pick") !== null;
  return all.find(forPicked) ?? all.find((element) => element.matches(`[data-key~=${key}]`)) ?? all[0];
}

const rowControl = (key) => [...(currentRow()?.querySelectorAll(IN_ROW[key]) ?? [])].find(isThere);

// What a row does not have, its own page has.
function rowLink(key) {
  const row = currentRow() ?? rows()[0];
  return row?.closest("[data-row-keys]")?.dataset.rowKeys.includes(key) ? row.querySelector("a") : null;
}

function show(element) {
  for (let around = element.parentElement?.closest("details"); around; around = around.parentElement.closest("details")) {
    around.open = true;
  }
  element.focus();
  element.scrollIntoView({ block: "nearest" });
}

function open(link, key) {
  const target = new URL(link.href);
  target.hash = `key-${key}`;
  location.assign(target);
}

// What is picked is meant before the current row, and that before the page.
function go(key) {
  const inRow = picked().length ? null : rowControl(key);
  const link = picked().length || !currentRow() ? null : rowLink(key);
  const element = inRow ?? (link ? null : control(key));
  if (element) show(element);
  else if (link) open(link, key);
}

// From one letter to the next of the list that it was opened from.
const neighbour = (step) => document.querySelector(`main a[rel~=${step > 0 ? "next" : "prev"}]`);

function step(by) {
  if (rows().length) move(by);
  else neighbour(by)?.click();
}

const pickBox = () => currentRow()?.querySelector("input.pick") ?? rows()[0]?.querySelector("input.pick");
const search = () => document.querySelector("[data-search]");

const KEYS = {
  "/": { can: search, act: () => search()?.select() },
  j: { can: () => rows().length || neighbour(1) || neighbour(-1), act: () => step(1) },
  k: { can: () => false, act: () => step(-1) }, // told with j
  Enter: { can: () => rows().length, act: null },
  x: { can: pickBox, act: () => pickBox()?.click() },
  "?": { can: () => true, act: showHelp },
  Escape: { can: () => true, act: leave },
};
for (const key of Object.keys(CONTROLS)) KEYS[key] = { can: () => rowControl(key) ?? control(key) ?? rowLink(key), act: () => go(key) };

function showHelp() {
  for (const part of help.querySelectorAll("[data-of]")) part.hidden = !KEYS[part.dataset.of].can();
  help.showModal();
}

// Out of a menu, out of a field, out of a selection: one step each time.
function leave() {
  const menu = document.querySelector("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  } else if (document.activeElement?.matches(TYPING)) {
    (currentRow()?.querySelector("a") ?? document.getElementById("main")).focus({ preventScroll: true });
  } else if (picked().length) pickNone();
  else {
    currentRow()?.classList.remove("current");
    document.activeElement?.blur();
  }
}

function focusNext(from) {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
  const next = all.slice(all.indexOf(from) + 1).find((element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility());
  next?.focus();
}

// Keys that were pressed before they could be done, as if they were pressed now; says whether more may follow.
function press(key) {
  const at = document.activeElement;
  if (key === "Enter") {
    if (at.matches("input, select")) at.form?.requestSubmit();
    else if (at !== document.body) at.click();
    return false; // the next page, or rows, are others
  }
  if (key === "Tab") focusNext(at);
  else if (key !== "Escape" && at.matches(TYPING)) document.execCommand("insertText", false, key);
  else KEYS[key]?.act?.();
  return true;
}

// While rows are being replaced a key waits for the new ones: it would be done to another row than is meant.
const HELD = /^(.|Enter|Tab|Escape)$/u;
const HELD_MS = 5000;
const asking = new Set();
let held = [];

const replacesRows = ({ target }) => target?.closest("[data-row]") || target?.querySelector("[data-row]") || target?.id === "results";

document.addEventListener("htmx:beforeSend", ({ detail }) => {
  if (!isPoll(detail.elt) && replacesRows(detail)) asking.add(detail.xhr);
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (asking.has(detail.xhr)) setTimeout(() => answered(detail.xhr)); // a key that is pressed before that waits, too
});

function answered(xhr) {
  asking.delete(xhr);
  if (asking.size) return;
  const keys = held.filter(({ at }) => Date.now() - at < HELD_MS).map(({ key }) => key);
  held = [];
  keys.every(press);
}

document.addEventListener("keys-kept", (event) => event.detail.every(press));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (event.target.closest("dialog")) return;
  if (event.key !== "Escape" && event.target.closest(TYPING)) return;
  const { act } = KEYS[event.key] ?? {};
  const waits = asking.size > 0 && (held.length > 0 ? HELD.test(event.key) : act && event.key !== "Escape");
  if (!act && !waits) return;
  event.preventDefault();
  if (waits) held.push({ key: event.key, at: Date.now() });
  else act();
});

const asked = /^#key-([arnh])$/.exec(location.hash);
if (asked) {
  history.replaceState(history.state, "", location.pathname + location.search);
  go(asked[1]);
}
